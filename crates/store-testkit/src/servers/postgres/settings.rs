//! How a server for tests is set.

use std::fmt;
use std::fs;
use std::io::Write;

use super::super::home::Home;
use super::super::{StartError, certificates};
use super::{ROLE, SUPERUSER, install};

/// How a server is set. The default is quick and careless: what it holds does not survive the machine, nor
/// the last moment before a kill. [`durable`](Self::durable) is for tests about that.
#[derive(Clone)]
pub struct Settings {
    is_durable: bool,
    has_tls: bool,
    password: Option<String>,
    max_connections: u32,
    extra: Vec<(String, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { is_durable: false, has_tls: false, password: None, max_connections: 200, extra: Vec::new() }
    }
}

impl Settings {
    /// Commits are on the disk before they are answered, as PostgreSQL does by itself.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// How many connections the server takes; 200 unless told. Three of them are reserved for superusers.
    #[must_use]
    pub fn max_connections(mut self, max_connections: u32) -> Self {
        self.max_connections = max_connections;
        self
    }

    /// The role of the URL needs this password, by SCRAM. Without it every account of this machine is trusted.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// The server has a certificate and refuses the role of the URL over a connection without TLS.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.has_tls = true;
        self
    }

    /// Any setting of `postgresql.conf`; a later one wins.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.extra.push((name.to_owned(), value.to_string()));
        self
    }

    pub(in super::super) fn has_tls(&self) -> bool {
        self.has_tls
    }

    pub(in super::super) fn secret(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Writes the settings into the cluster's own files, and not onto the command line: a test may still change
    /// them with `alter system`.
    pub(super) fn write(&self, home: &Home) -> Result<(), StartError> {
        let cluster = install::cluster(home);
        fs::OpenOptions::new()
            .append(true)
            .open(cluster.join("postgresql.conf"))
            .and_then(|mut file| file.write_all(self.lines(home).as_bytes()))
            .map_err(StartError::step("write postgresql.conf"))?;
        fs::write(cluster.join("pg_hba.conf"), self.access()).map_err(StartError::step("write pg_hba.conf"))
    }

    fn lines(&self, home: &Home) -> String {
        let mut all = vec![
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("unix_socket_directories", socket_folder(home)),
            ("max_connections", self.max_connections.to_string()),
            ("log_line_prefix", "%m [%p] %q%u ".to_owned()),
            ("log_lock_waits", "on".to_owned()),
        ];
        let durability = if self.is_durable { "on" } else { "off" };
        for name in ["fsync", "synchronous_commit", "full_page_writes"] {
            all.push((name, durability.to_owned()));
        }
        if cfg!(target_os = "linux") {
            // After a kill it would otherwise sync its thousand files one by one, which takes seconds.
            all.push(("recovery_init_sync_method", "syncfs".to_owned()));
        }
        if self.has_tls {
            all.push(("ssl", "on".to_owned()));
            all.push(("ssl_cert_file", certificates::certificate(home).display().to_string()));
            all.push(("ssl_key_file", certificates::key(home).display().to_string()));
        }
        all.extend(self.extra.iter().map(|(name, value)| (name.as_str(), value.clone())));
        all.iter().map(|(name, value)| format!("\n{name} = '{}'", value.replace('\'', "''"))).collect()
    }

    fn access(&self) -> String {
        let connection = if self.has_tls { "hostssl" } else { "host" };
        let method = if self.password.is_some() { "scram-sha-256" } else { "trust" };
        format!(
            "local all {SUPERUSER} trust\n\
             host all {SUPERUSER} 127.0.0.1/32 trust\n\
             local all {ROLE} {method}\n\
             {connection} all {ROLE} 127.0.0.1/32 {method}\n"
        )
    }
}

/// Shows no password.
impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("is_durable", &self.is_durable)
            .field("has_tls", &self.has_tls)
            .field("has_password", &self.password.is_some())
            .field("max_connections", &self.max_connections)
            .field("extra", &self.extra)
            .finish()
    }
}

/// The path of a socket has a short limit; without one there is still TCP.
fn socket_folder(home: &Home) -> String {
    const FOLDER_BYTES_MAX: usize = 80;
    let folder = home.path().display().to_string();
    if folder.len() > FOLDER_BYTES_MAX { String::new() } else { folder }
}
