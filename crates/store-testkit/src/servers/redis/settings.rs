//! How a Redis server for tests is set.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use super::super::home::Home;
use super::super::{StartError, certificates};
use super::RedisServer;

/// How a server is set. The default keeps everything in memory and nothing on the disk, takes no password and
/// evicts nothing.
#[derive(Clone, Default)]
pub struct RedisSettings {
    aof: Option<Aof>,
    has_tls: bool,
    is_node: bool,
    password: Option<String>,
    user: Option<User>,
    extra: Vec<(String, String)>,
}

/// When the append-only file reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aof {
    /// Once per second. A killed server loses nothing, a machine that stops up to a second or two.
    Everysec,
    /// Before each answer.
    Always,
}

/// An account with rights of its own.
#[derive(Clone)]
struct User {
    name: String,
    password: String,
    rules: String,
}

/// The user that administers a server which lets only its own user in. It needs no password: the server is gone soon.
const ADMINISTRATOR: &str = "administrator";

impl RedisSettings {
    /// Writes go to an append-only file.
    #[must_use]
    pub fn aof(mut self, aof: Aof) -> Self {
        self.aof = Some(aof);
        self
    }

    /// The most bytes that the content may take; writes that need more are refused then.
    #[must_use]
    pub fn maxmemory(self, bytes: u64) -> Self {
        self.set("maxmemory", bytes)
    }

    /// Every connection needs this password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Only this user gets in, with rights as in `~wl:* &wl:* +@all -@dangerous`.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str, rules: &str) -> Self {
        self.user = Some(User { name: name.into(), password: password.into(), rules: rules.into() });
        self
    }

    /// The server has a certificate and takes no connection without TLS but through its socket.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.has_tls = true;
        self
    }

    /// The server copies what another one holds, and takes no writes.
    #[must_use]
    pub fn replica_of(self, primary: &RedisServer) -> Self {
        let (user, password) = primary.settings.administrator().unwrap_or_default();
        let mut replica = self.set("replicaof", format_args!("127.0.0.1 {}", primary.port()));
        if !user.is_empty() {
            replica = replica.set("masteruser", user).set("masterauth", quoted(password));
        }
        replica
    }

    /// Any line of `redis.conf`, the value as it stands there; a later one wins.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.extra.push((name.to_owned(), value.to_string()));
        self
    }

    /// A node of a Cluster, for whom a few seconds without an answer are an end.
    pub(in super::super) fn node(mut self) -> Self {
        self.is_node = true;
        self.set("cluster-enabled", "yes")
            .set("cluster-node-timeout", 2_000)
            .set("cluster-replica-validity-factor", 0)
            .set("repl-ping-replica-period", 1)
    }

    pub(super) fn is_node(&self) -> bool {
        self.is_node
    }

    pub(super) fn has_tls(&self) -> bool {
        self.has_tls
    }

    /// User and password for connections to the server, if any are needed.
    pub(super) fn client(&self) -> Option<(&str, &str)> {
        match (&self.user, &self.password) {
            (Some(user), _) => Some((&user.name, &user.password)),
            (None, Some(password)) => Some(("default", password)),
            (None, None) => None,
        }
    }

    /// User and password of one with all rights, if any are needed.
    pub(super) fn administrator(&self) -> Option<(&str, &str)> {
        match (&self.user, &self.password) {
            (Some(_), _) => Some((ADMINISTRATOR, "any")),
            (None, Some(password)) => Some(("default", password)),
            (None, None) => None,
        }
    }

    /// Writes the server's settings file, with the port it is to listen on.
    pub(super) fn write(&self, home: &Home, port: u16) -> Result<(), StartError> {
        fs::write(path(home), self.lines(home, port)).map_err(StartError::step("write redis.conf"))
    }

    fn lines(&self, home: &Home, port: u16) -> String {
        let mut all: Vec<(&str, String)> = vec![
            ("bind", "127.0.0.1".into()),
            ("dir", quoted(&home.path().display().to_string())),
            ("unixsocket", quoted(&socket(home).display().to_string())),
            ("unixsocketperm", "777".into()),
            // No snapshots.
            ("save", "\"\"".into()),
            ("daemonize", "no".into()),
            // There is no second replica to wait for.
            ("repl-diskless-sync-delay", "0".into()),
        ];
        if self.has_tls {
            let file = |path: PathBuf| quoted(&path.display().to_string());
            all.push(("port", "0".into()));
            all.push(("tls-port", port.to_string()));
            all.push(("tls-cert-file", file(certificates::certificate(home))));
            all.push(("tls-key-file", file(certificates::key(home))));
            all.push(("tls-ca-cert-file", file(certificates::authority(home))));
            all.push(("tls-auth-clients", "no".into()));
        } else {
            all.push(("port", port.to_string()));
        }
        if let Some(aof) = self.aof {
            let fsync = if aof == Aof::Always { "always" } else { "everysec" };
            all.push(("appendonly", "yes".into()));
            all.push(("appendfsync", fsync.into()));
        }
        if let Some(password) = &self.password {
            all.push(("requirepass", quoted(password)));
        }
        if let Some(User { name, password, rules }) = &self.user {
            all.push(("user", "default off".into()));
            all.push(("user", format!("{ADMINISTRATOR} on nopass ~* &* +@all")));
            all.push(("user", format!("{name} on {} {rules}", quoted(&format!(">{password}")))));
        }
        all.extend(self.extra.iter().map(|(name, value)| (name.as_str(), value.clone())));
        all.iter().map(|(name, value)| format!("{name} {value}\n")).collect()
    }
}

/// Shows no password.
impl fmt::Debug for RedisSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RedisSettings")
            .field("aof", &self.aof)
            .field("has_tls", &self.has_tls)
            .field("has_password", &self.client().is_some())
            .finish_non_exhaustive()
    }
}

/// The settings file in a server's folder.
pub(super) fn path(home: &Home) -> PathBuf {
    home.path().join("redis.conf")
}

/// The unix socket in a server's folder.
pub(super) fn socket(home: &Home) -> PathBuf {
    home.path().join("redis.sock")
}

/// A value of the settings file that may contain anything.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
