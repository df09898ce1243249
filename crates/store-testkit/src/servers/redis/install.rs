//! The Redis that is installed on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::StartError;
use super::super::home::run;

const OLDEST: (u32, u32) = (6, 2);

/// The programs of one version.
#[derive(Debug)]
pub(in super::super) struct Install {
    server: PathBuf,
}

impl Install {
    /// Looks along `PATH`, and where packages put programs that only root calls.
    pub(in super::super) fn find() -> Result<Self, StartError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let server = std::env::split_paths(&path)
            .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
            .map(|folder| folder.join("redis-server"))
            .find(|program| program.is_file())
            .ok_or_else(|| missing("looked along PATH and in /usr/sbin"))?;
        let mut ask = Command::new(&server);
        ask.arg("--version");
        // As in "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=e08dbad3e06f3fb".
        let said = run(ask)?;
        let version = said.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or_default();
        let mut parts = version.split('.').map_while(|part| part.parse().ok());
        match (parts.next(), parts.next()) {
            (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(Self { server }),
            _ => Err(missing(&format!("found {version:?} at {}", server.display()))),
        }
    }

    /// The server.
    pub(in super::super) fn server(&self) -> &Path {
        &self.server
    }

    /// The command line client: beside the server if it is there, else from `PATH`.
    pub(in super::super) fn cli(&self) -> PathBuf {
        let path = self.server.with_file_name("redis-cli");
        if path.is_file() { path } else { "redis-cli".into() }
    }
}

fn missing(looked: &str) -> StartError {
    StartError::Missing {
        program: "Redis server, 6.2 or newer,",
        looked: looked.to_owned(),
        install: "redis-server (Debian: apt-get install redis-server; its own service is not used)",
    }
}
