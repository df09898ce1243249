//! Makes connections: settings, TLS, keepalives, and the driver that keeps each going.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::config::Config;
use tokio_postgres::{Client, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass_core::store::StoreResult;

use super::connection::{Connection, Mark};
use super::gate::Gate;
use crate::error::{Unreachable, chain, connecting, takes_no_settings};
use crate::{PostgresOptions, tls};

type TlsStream = <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream;

/// What has to be polled for a client to work.
type Driver = tokio_postgres::Connection<Socket, TlsStream>;

/// How long a request to cancel may take.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// How long connections have to say goodbye when the store closes.
const FAREWELL: Duration = Duration::from_millis(100);

/// Connects to one server, for the pools and for the listener, which has a connection of its own.
pub(crate) struct Connector {
    config: Config,
    hosts: String,
    settings: String,
    /// Behind a pooler that takes no settings.
    is_plain: AtomicBool,
    connect_wait: Duration,
    tls: MakeRustlsConnect,
    gate: Gate,
    drivers: Arc<AtomicUsize>,
}

/// A connection that nothing drives yet.
struct Made {
    client: Client,
    driver: Driver,
    /// Whether settings were sent with it.
    has_settings: bool,
}

impl Connector {
    /// Reads the certificates, which blocks for a moment.
    pub(crate) fn new(options: &PostgresOptions) -> StoreResult<Self> {
        let hosts = options.config.get_hosts().len().max(1);
        let each = options.config.get_connect_timeout().copied().unwrap_or(PostgresOptions::CONNECT_TIMEOUT);
        Ok(Self {
            config: options.config.clone(),
            hosts: options.hosts(),
            settings: options.server_settings(),
            is_plain: AtomicBool::new(false),
            connect_wait: each.saturating_mul(u32::try_from(hosts).unwrap_or(1)),
            tls: MakeRustlsConnect::new(tls::client_config(options)?),
            gate: Gate::default(),
            drivers: Arc::default(),
        })
    }

    /// A connection that is driven on this runtime until its client is dropped.
    pub(crate) async fn connect(&self) -> Result<Connection, Unreachable> {
        let mark = Mark::new();
        let Made { client, driver, has_settings } = self.enter(&mark.setting()).await?;
        let driver = self.drive(async move {
            // The client learns of it by its own calls.
            if let Err(error) = driver.await {
                tracing::debug!(error = %chain(&error), "a connection ended");
            }
        });
        let is_own_session =
            has_settings && mark.is_on(&client).await.map_err(|error| connecting(&error, &self.hosts))?;
        Ok(Connection::new(client, driver, is_own_session))
    }

    /// A connection that the caller drives.
    pub(crate) async fn connect_undriven(&self) -> Result<(Client, Driver), Unreachable> {
        self.enter("").await.map(|made| (made.client, made.driver))
    }

    /// Connects, with one more setting if any are taken.
    async fn enter(&self, setting: &str) -> Result<Made, Unreachable> {
        let attempt = self.gate.enter()?;
        match self.attempt(setting).await {
            Ok(made) => {
                attempt.succeeded();
                Ok(made)
            }
            Err(why) => {
                attempt.failed(&why);
                Err(why)
            }
        }
    }

    /// Drives a connection, and is waited for when the store closes.
    pub(crate) fn drive(&self, driver: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let counted = Counted::new(&self.drivers);
        let driver = async move {
            driver.await;
            drop(counted);
        };
        Handle::current().spawn(driver).abort_handle()
    }

    /// Whether connections come without settings, as behind a pooler.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain.load(Ordering::Relaxed)
    }

    /// Gives up a connection whose statement may still run: asks the server to cancel, and closes.
    pub(crate) async fn abandon(&self, connection: &Connection) {
        let cancel = connection.client.cancel_token();
        connection.driver.abort();
        if !matches!(timeout(CANCEL_WAIT, cancel.cancel_query(self.tls.clone())).await, Ok(Ok(()))) {
            tracing::debug!("a statement that took too long could not be cancelled");
        }
    }

    /// Gives the drivers a moment to take leave of the server.
    pub(super) async fn farewell(&self) {
        let began = Instant::now();
        while self.drivers.load(Ordering::Relaxed) > 0 && began.elapsed() < FAREWELL {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// With settings, and without if a pooler refuses these.
    async fn attempt(&self, setting: &str) -> Result<Made, Unreachable> {
        loop {
            let mut config = self.config.clone();
            let has_settings = !self.is_plain();
            if has_settings {
                config.options(format!("{}{setting}", self.settings));
            }
            // In a place of its own: it is large, and every call would carry room for it.
            let connect = Box::pin(config.connect(self.tls.clone()));
            match timeout(self.connect_wait, connect).await {
                Ok(Ok((client, driver))) => return Ok(Made { client, driver, has_settings }),
                Ok(Err(error)) if has_settings && takes_no_settings(&error) => self.become_plain(),
                Ok(Err(error)) => return Err(connecting(&error, &self.hosts)),
                Err(_) => {
                    let what = format!("no connection to {} within {:?}", self.hosts, self.connect_wait);
                    return Err(Unreachable::passing(what));
                }
            }
        }
    }

    /// Several attempts may find it out at once.
    fn become_plain(&self) {
        if !self.is_plain.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "the pooler takes no settings: the server's own limits hold for statements and locks"
            );
        }
    }
}

/// Counts what lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
