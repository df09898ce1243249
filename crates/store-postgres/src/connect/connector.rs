//! Makes connections: settings, TLS, keepalives, and the driver that keeps each going.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::config::Config;
use tokio_postgres::{Client, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass_core::store::StoreResult;

use super::gate::Gate;
use super::wire::{Mark, Wire};
use crate::error::{Away, Reason};
use crate::{PostgresOptions, tls};

type TlsStream = <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream;

/// How long a request to cancel may take.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// How long connections have to say goodbye when the store closes.
const FAREWELL: Duration = Duration::from_millis(100);

/// Connects to one server, for the pools and for whoever needs a connection of their own.
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

/// A connection that nobody drives yet.
struct Made {
    client: Client,
    connection: Connection<Socket, TlsStream>,
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
    pub(crate) async fn connect(&self) -> Result<Wire, Away> {
        let mark = Mark::new();
        let Made { client, connection, has_settings } = self.enter(&mark.setting()).await?;
        let driver = self.drive(async move {
            // The client learns of it by its own calls.
            if let Err(error) = connection.await {
                tracing::debug!(error = %crate::error::chain(&error), "a connection ended");
            }
        });
        let is_own_session = has_settings
            && mark.is_on(&client).await.map_err(|error| Away::connecting(&error, &self.hosts))?;
        Ok(Wire::new(client, driver, is_own_session))
    }

    /// A connection that the caller drives.
    pub(crate) async fn connect_undriven(&self) -> Result<(Client, Connection<Socket, TlsStream>), Away> {
        self.enter("").await.map(|made| (made.client, made.connection))
    }

    /// Connects, with one more setting if any are taken.
    async fn enter(&self, setting: &str) -> Result<Made, Away> {
        let attempt = self.gate.enter()?;
        let mut result = self.attempt(setting).await;
        if result.as_ref().is_err_and(|away| away.reason == Reason::Settings) {
            // Several may find out at once, and each tries again.
            if !self.is_plain.swap(true, Ordering::Relaxed) {
                tracing::info!(
                    "the pooler takes no settings: the server's own limits hold for statements and locks"
                );
            }
            result = self.attempt(setting).await;
        }
        match result {
            Ok(made) => {
                attempt.succeeded();
                Ok(made)
            }
            Err(away) => {
                attempt.failed(&away);
                Err(away)
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
    pub(super) async fn abandon(&self, wire: &Wire) {
        let cancel = wire.client.cancel_token();
        wire.driver.abort();
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

    async fn attempt(&self, setting: &str) -> Result<Made, Away> {
        let mut config = self.config.clone();
        let has_settings = !self.is_plain();
        if has_settings {
            config.options(format!("{}{setting}", self.settings));
        }
        // In a place of its own: it is large, and every call would carry room for it.
        let connect = Box::pin(config.connect(self.tls.clone()));
        match timeout(self.connect_wait, connect).await {
            Ok(Ok((client, connection))) => Ok(Made { client, connection, has_settings }),
            Ok(Err(error)) => Err(Away::connecting(&error, &self.hosts)),
            Err(_) => {
                let what = format!("no connection to {} within {:?}", self.hosts, self.connect_wait);
                Err(Away::passing(what))
            }
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
