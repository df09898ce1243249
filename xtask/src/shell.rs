//! Runs commands and says which.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// One command of a step, with the reason it is run for.
pub(crate) struct Step {
    why: String,
    command: Command,
}

/// A cargo command at the root of the workspace.
pub(crate) fn cargo<A: AsRef<OsStr>>(why: &str, arguments: impl IntoIterator<Item = A>) -> Step {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    // What cargo says about this program to this program is not meant for another cargo: some build scripts look
    // at it, and everything would be built again when cargo is called by hand.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_about_this_package(name)) {
        command.env_remove(name);
    }
    Step { why: why.to_owned(), command }
}

fn is_about_this_package(variable: &OsStr) -> bool {
    let name = variable.as_encoded_bytes();
    name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
}

/// Any other command at the root of the workspace.
pub(crate) fn program<A: AsRef<OsStr>>(
    why: &str,
    name: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Step {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root());
    Step { why: why.to_owned(), command }
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

impl Step {
    /// Adds arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.command.env(name, value.to_string());
        self
    }

    /// Sets several environment variables.
    pub(crate) fn envs(mut self, variables: &[(String, String)]) -> Self {
        self.command.envs(variables.iter().cloned());
        self
    }

    /// Runs in another folder.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Runs it, showing what it prints; fails when it fails.
    pub(crate) fn run(mut self) -> Result<()> {
        let line = self.line();
        eprintln!("\n=== {}: {line}", self.why);
        let started = Instant::now();
        let status = self.command.status().with_context(|| format!("cannot start {line}"))?;
        if !status.success() {
            bail!("{} failed ({status}): {line}", self.why);
        }
        eprintln!("=== {}: ok after {:.0} s", self.why, started.elapsed().as_secs_f64());
        Ok(())
    }

    fn line(&self) -> String {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let mut line = words.join(" ");
        if let Some(start) = line.find("cargo ") {
            line.drain(..start);
        }
        line
    }
}
