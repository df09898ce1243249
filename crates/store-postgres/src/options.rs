//! Where the server is and how it is talked to: the URL and its parameters, or the same by hand.

mod url;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::config::{Config, Host};
use windlass_core::StoreError;
pub use windlass_store_server::options::Listen;
use windlass_store_server::options::{address, bounded};

/// How to open a store.
///
/// ```
/// use windlass_store_postgres::{PostgresOptions, SynchronousCommit};
///
/// let options = PostgresOptions::parse("postgres://app:secret@db.example/app?schema=jobs").unwrap();
/// assert_eq!(options.place(), "db.example:5432/app jobs");
/// assert!(!format!("{options:?}").contains("secret"));
/// let options = options.synchronous_commit(SynchronousCommit::Off).pool(20).unwrap();
/// let error = PostgresOptions::parse("postgres://db.example/app?scheme=jobs").unwrap_err();
/// assert!(error.to_string().contains("schema, pool, statement_timeout"));
/// ```
#[derive(Clone)]
pub struct PostgresOptions {
    pub(crate) config: Config,
    pub(crate) ssl_mode: SslMode,
    pub(crate) ssl_root_cert: Option<PathBuf>,
    pub(crate) schema: String,
    pub(crate) pool: u32,
    /// How long a call waits for a connection.
    pub(crate) connection_wait: Duration,
    pub(crate) statement_timeout: Duration,
    pub(crate) lock_timeout: Duration,
    pub(crate) synchronous_commit: SynchronousCommit,
    pub(crate) listen: Listen,
    pub(crate) migrate: Migrate,
}

/// When connections are encrypted, and how much of the server's certificate is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server can. The certificate is not checked, unless a root certificate is given.
    #[default]
    Prefer,
    /// Always encrypted. The certificate is not checked, unless a root certificate is given.
    Require,
    /// Always encrypted, with a certificate that a trusted authority has signed, for whatever name.
    VerifyCa,
    /// Always encrypted, with a certificate that a trusted authority has signed for the host's name.
    VerifyFull,
}

/// When the server answers a commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SynchronousCommit {
    /// When it is on the disk: an accepted job survives a power cut.
    #[default]
    On,
    /// A moment before: faster, and a crash of the server may take the newest jobs.
    Off,
}

/// Whether opening a store brings its schema up to date.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Migrate {
    /// It does.
    #[default]
    Auto,
    /// It does not; opening fails if the schema is missing or old.
    Never,
}

impl PostgresOptions {
    /// How long connecting may take, unless `connect_timeout` says otherwise.
    pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

    /// Reads a URL: `postgres://user:password@host:port/database?name=value`, also with several hosts, or with
    /// `host=/folder` for a local socket; see the crate's page for the parameters. What has a meaning in a URL
    /// (`@ / ? & %`) stands percent-encoded in user, password and values. No error quotes a password.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        url::parse(url)
    }

    fn new(config: Config) -> Self {
        Self {
            config,
            ssl_mode: SslMode::default(),
            ssl_root_cert: None,
            schema: "windlass".to_owned(),
            pool: 8,
            connection_wait: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(15),
            lock_timeout: Duration::from_secs(5),
            synchronous_commit: SynchronousCommit::default(),
            listen: Listen::default(),
            migrate: Migrate::default(),
        }
    }

    /// The schema that holds the store: a lower-case letter or `_`, then up to 47 of those and digits.
    pub fn schema(mut self, schema: &str) -> Result<Self, StoreError> {
        let is_first = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let bytes = schema.as_bytes();
        let is_name = matches!(bytes, [first, rest @ ..] if is_first(*first) && rest.len() < 48
            && rest.iter().all(|&byte| is_first(byte) || byte.is_ascii_digit()));
        if !is_name || schema.starts_with("pg_") || schema == "information_schema" {
            return Err(address(
                "schema: use a lower-case letter or _, then at most 47 of a-z, 0-9 and _, not beginning with pg_ and not \
                 information_schema, which are the server's own",
            ));
        }
        self.schema = schema.to_owned();
        Ok(self)
    }

    /// The schema as it stands in statements: in quotes, for it may be a word of SQL.
    pub(crate) fn schema_quoted(&self) -> String {
        quoted(&self.schema)
    }

    /// Connections for work, 2 to 1000; 8 by default. A few more serve leases and wake-ups.
    pub fn pool(mut self, connections: u32) -> Result<Self, StoreError> {
        if !(2..=1_000).contains(&connections) {
            return Err(address("pool: use a number of connections from 2 to 1000"));
        }
        self.pool = connections;
        Ok(self)
    }

    /// How long the server may take over one statement, 100 ms to an hour; 15 s by default.
    pub fn statement_timeout(mut self, timeout: Duration) -> Result<Self, StoreError> {
        self.statement_timeout = bounded("statement_timeout", timeout)?;
        Ok(self)
    }

    /// How long a statement may wait for a lock, 100 ms to an hour; 5 s by default.
    pub fn lock_timeout(mut self, timeout: Duration) -> Result<Self, StoreError> {
        self.lock_timeout = bounded("lock_timeout", timeout)?;
        Ok(self)
    }

    /// When the server answers a commit. A pooler may leave this to the server.
    #[must_use]
    pub fn synchronous_commit(mut self, synchronous_commit: SynchronousCommit) -> Self {
        self.synchronous_commit = synchronous_commit;
        self
    }

    /// Whether the store listens for the wake-ups of other programs.
    #[must_use]
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listen = listen;
        self
    }

    /// Whether opening the store brings its schema up to date.
    #[must_use]
    pub fn migrate(mut self, migrate: Migrate) -> Self {
        self.migrate = migrate;
        self
    }

    /// When connections are encrypted, and how much of the server's certificate is checked.
    #[must_use]
    pub fn ssl_mode(mut self, mode: SslMode) -> Self {
        use tokio_postgres::config::SslMode as Driver;
        self.ssl_mode = mode;
        self.config.ssl_mode(match mode {
            SslMode::Disable => Driver::Disable,
            SslMode::Prefer => Driver::Prefer,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Driver::Require,
        });
        self
    }

    /// A file with the certificates of the authorities to trust, in PEM, instead of the system's.
    #[must_use]
    pub fn ssl_root_cert(mut self, path: impl AsRef<Path>) -> Self {
        self.ssl_root_cert = Some(path.as_ref().to_owned());
        self
    }

    /// Where the store is, without secrets: `host:port/database schema`.
    pub fn place(&self) -> String {
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{}/{database} {}", self.hosts(), self.schema)
    }

    /// Where the server is, or the servers that it may be: `host:port,host:port`.
    pub(crate) fn hosts(&self) -> String {
        let ports = self.config.get_ports();
        let host = |(index, host): (usize, &Host)| {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
                Host::Tcp(name) => format!("{name}:{port}"),
                #[cfg(unix)]
                Host::Unix(folder) => format!("{}:{port}", folder.display()),
            }
        };
        let hosts: Vec<_> = self.config.get_hosts().iter().enumerate().map(host).collect();
        hosts.join(",")
    }

    /// What each connection asks the server to set: nothing that the store would miss where it cannot be set.
    pub(crate) fn server_settings(&self) -> String {
        let own = self.config.get_options().map(|own| format!("{own} ")).unwrap_or_default();
        let commit = match self.synchronous_commit {
            SynchronousCommit::On => "on",
            SynchronousCommit::Off => "off",
        };
        format!(
            "{own}-c statement_timeout={} -c lock_timeout={} -c idle_in_transaction_session_timeout=60s \
             -c synchronous_commit={commit} -c default_transaction_isolation=read\\ committed -c jit=off \
             -c client_min_messages=warning",
            self.statement_timeout.as_millis(),
            self.lock_timeout.as_millis(),
        )
    }
}

/// A name as an identifier. [`PostgresOptions::schema`] lets no quote into one.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// Shows no password.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("place", &self.place())
            .field("user", &self.config.get_user())
            .field("ssl_mode", &self.ssl_mode)
            .field("ssl_root_cert", &self.ssl_root_cert)
            .field("pool", &self.pool)
            .field("statement_timeout", &self.statement_timeout)
            .field("lock_timeout", &self.lock_timeout)
            .field("synchronous_commit", &self.synchronous_commit)
            .field("listen", &self.listen)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}
