//! Where the server is and how it is talked to: the URL and its parameters, or the same by hand.

mod url;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::Clock;
use windlass_core::{Name, StoreError};
pub use windlass_store_server::options::Listen;
use windlass_store_server::options::{address, bounded};

/// How to open a store.
///
/// ```
/// use windlass_store_redis::RedisOptions;
///
/// let options = RedisOptions::parse("redis://app:secret@db.example/2?namespace=jobs").unwrap();
/// assert_eq!(options.place(), "db.example:6379/2 jobs");
/// assert!(!format!("{options:?}").contains("secret"));
/// let error = RedisOptions::parse("redis://db.example?name=jobs").unwrap_err();
/// assert!(error.to_string().contains("namespace, timeout"));
/// ```
#[derive(Clone)]
pub struct RedisOptions {
    pub(crate) targets: Vec<Target>,
    /// Those who know where [`Target::Primary`] is.
    pub(crate) sentinels: Vec<Target>,
    pub(crate) layout: Layout,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    pub(crate) encryption: Encryption,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) namespace: Name,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) replicas: u32,
    pub(crate) wait_timeout: Duration,
    pub(crate) eviction: Eviction,
    pub(crate) listen: Listen,
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Tcp(String, u16),
    Unix(PathBuf),
    /// Whichever server the sentinels take for the primary of this name.
    Primary(String),
}

/// How the keys lie on servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The server says: one by itself, or a node of a cluster.
    Found,
    /// A Redis Cluster; anything else is refused.
    Cluster,
}

/// Whether connections are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encryption {
    Plain,
    Tls,
}

/// What to do about a server that may throw keys away when its memory is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Eviction {
    /// It is not used: a job that was accepted could vanish.
    #[default]
    Refuse,
    /// It is used all the same, with a warning at every start.
    Allow,
}

impl RedisOptions {
    /// Reads a URL: `redis://user:password@host:port/database?name=value`, `rediss://` with TLS, `redis+unix:///path`
    /// for a local socket, `redis-cluster://host,host` for a Cluster, `redis-sentinel://host,host/primary` for a primary
    /// that Sentinels know, the last two also with `rediss-`; see the crate's page for the parameters. What has a meaning
    /// in a URL (`@ / ? & %`) stands percent-encoded in user, password and values. No error quotes a password.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        url::parse(url)
    }

    fn new(targets: Vec<Target>, layout: Layout) -> Self {
        Self {
            targets,
            sentinels: Vec::new(),
            layout,
            user: None,
            password: None,
            database: 0,
            encryption: Encryption::Plain,
            ca_file: None,
            namespace: Name::new("windlass").expect("a plain word is a name"),
            timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(3),
            replicas: 0,
            wait_timeout: Duration::from_secs(1),
            eviction: Eviction::default(),
            listen: Listen::default(),
            clock: None,
        }
    }

    /// What all keys of the store are under, so that several stores share a server: a name without `:`.
    pub fn namespace(mut self, namespace: &str) -> Result<Self, StoreError> {
        let name = Name::new(namespace).ok().filter(|name| !name.as_str().contains(':'));
        let refused = || address("namespace: use 1 to 128 of A-Z a-z 0-9 _ . and -");
        self.namespace = name.ok_or_else(refused)?;
        Ok(self)
    }

    /// How long a call waits for an answer, 100 ms to an hour; 15 s by default.
    pub fn timeout(mut self, timeout: Duration) -> Result<Self, StoreError> {
        self.timeout = bounded("timeout", timeout)?;
        Ok(self)
    }

    /// How long connecting may take, 100 ms to an hour; 3 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Result<Self, StoreError> {
        self.connect_timeout = bounded("connect_timeout", timeout)?;
        Ok(self)
    }

    /// How many replicas must have an accepted job before it counts as accepted, up to 100; 0, the default, asks none.
    pub fn wait(mut self, replicas: u32) -> Result<Self, StoreError> {
        if replicas > 100 {
            return Err(address("wait: use a number of replicas from 0 to 100"));
        }
        self.replicas = replicas;
        Ok(self)
    }

    /// How long to wait for those replicas, 100 ms to an hour; 1 s by default.
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Self, StoreError> {
        self.wait_timeout = bounded("wait_timeout", timeout)?;
        Ok(self)
    }

    /// What to do about a server that may throw keys away.
    #[must_use]
    pub fn eviction(mut self, eviction: Eviction) -> Self {
        self.eviction = eviction;
        self
    }

    /// Whether the store listens for the wake-ups of other programs.
    #[must_use]
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listen = listen;
        self
    }

    /// A file with the certificates of the authorities to trust, in PEM, instead of the system's.
    #[must_use]
    pub fn ca_file(mut self, path: impl AsRef<Path>) -> Self {
        self.ca_file = Some(path.as_ref().to_owned());
        self
    }

    /// Another clock than the server's, for tests that move time.
    #[doc(hidden)]
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Where the store is, without secrets: `host:port/database namespace`.
    pub fn place(&self) -> String {
        let mut targets = join(&self.targets);
        if !self.sentinels.is_empty() {
            targets = format!("{}/{targets}", join(&self.sentinels));
        }
        let namespace = &self.namespace;
        match self.layout {
            Layout::Cluster => format!("{targets} {namespace}"),
            Layout::Found => format!("{targets}/{} {namespace}", self.database),
        }
    }
}

fn join(targets: &[Target]) -> String {
    targets.iter().map(Target::to_string).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Primary(name) => f.write_str(name),
        }
    }
}

/// Shows no password.
impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("place", &self.place())
            .field("user", &self.user)
            .field("encryption", &self.encryption)
            .field("ca_file", &self.ca_file)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("wait", &self.replicas)
            .field("wait_timeout", &self.wait_timeout)
            .field("eviction", &self.eviction)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}
