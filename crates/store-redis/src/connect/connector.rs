//! Makes connections: the socket, TLS, who we are, and the driver that keeps each going.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::select_ok;
use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, RedisConnectionInfo, Value};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use windlass_core::store::StoreResult;

use crate::error::{Meaning, ServerError, Unreachable, chain, is_brief, said, server_error};
use crate::options::{Encryption, Target};
use crate::{RedisOptions, tls};

/// How many requests wait for their turn to be written.
const BUFFER: usize = 1_024;

/// Who a connection is of that names no user.
const DEFAULT_USER: &str = "default";

/// Connects to any server of the store, for its endpoints and for the listener, which has a connection of its own.
pub(crate) struct Connector {
    options: RedisOptions,
    tls: Option<TlsConnector>,
    made: AtomicU64,
    transactions: AtomicBool,
}

/// A connection. Cheap to clone; it is closed when the last clone goes.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) multiplexed: MultiplexedConnection,
    /// Tells it from all others that this store ever made.
    pub(crate) number: u64,
    driver: Arc<Driver>,
}

/// What reads and writes. When it is dropped no request waits for an answer any more, and a server that hangs would keep
/// it for ever.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// Whether the other side or an error has ended it.
    pub(crate) fn is_closed(&self) -> bool {
        self.driver.0.is_finished()
    }
}

impl Connector {
    /// Reads the certificates, which blocks for a moment.
    pub(crate) fn new(options: &RedisOptions) -> StoreResult<Self> {
        let tls = match options.encryption {
            Encryption::Plain => None,
            Encryption::Tls => Some(TlsConnector::from(Arc::new(tls::client_config(options)?))),
        };
        let transactions = AtomicBool::new(true);
        Ok(Self { options: options.clone(), tls, made: AtomicU64::new(0), transactions })
    }

    /// Whether the user may have several commands run as one, on every server that was met so far.
    pub(crate) fn may_transact(&self) -> bool {
        self.transactions.load(Ordering::Relaxed)
    }

    /// A server has refused it.
    pub(crate) fn forbid_transactions(&self) {
        if self.transactions.swap(false, Ordering::Relaxed) {
            tracing::warn!(
                "the user may not use MULTI and EXEC: calls with long payloads hold up the server, allow +multi and +exec"
            );
        }
    }

    /// A connection for requests.
    pub(crate) async fn connect(&self, target: &Target) -> Result<Connection, Unreachable> {
        let config = config().set_pipeline_buffer_size(BUFFER);
        let introduced = async {
            let connection = self.open(target, silent(), config).await?;
            self.introduce(target, &connection).await?;
            Ok(connection)
        };
        self.within_patience(target, introduced).await
    }

    /// A connection that hands on what the server says by itself.
    pub(crate) async fn connect_listening(
        &self,
        target: &Target,
        heard: impl AsyncPushSender,
    ) -> Result<Connection, Unreachable> {
        let config = config().set_push_sender(heard);
        let mut identity = silent().set_protocol(ProtocolVersion::RESP3);
        if let Some(password) = &self.options.password {
            identity = identity.set_username(self.user()).set_password(password);
        }
        let named = async {
            let connection = self.open(target, identity, config).await?;
            // The name is for people: a server that refuses it will do, and one that has gone is found out soon.
            let _ = connection.multiplexed.clone().send_packed_command(&name()).await;
            Ok(connection)
        };
        self.within_patience(target, named).await
    }

    async fn within_patience<T>(
        &self,
        target: &Target,
        attempt: impl Future<Output = Result<T, Unreachable>>,
    ) -> Result<T, Unreachable> {
        let patience = self.options.connect_timeout;
        // In a place of its own: it is large, and every call would carry room for it.
        match timeout(patience, Box::pin(attempt)).await {
            Ok(result) => result,
            Err(_) => {
                // A server without TLS waits for the rest of what it takes for a command.
                let doubt = if self.tls.is_some() { ", if it speaks TLS at all" } else { "" };
                Err(Unreachable::passing(format!("no connection to {target} within {patience:?}{doubt}")))
            }
        }
    }

    async fn open(
        &self,
        target: &Target,
        identity: RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<Connection, Unreachable> {
        let found;
        let target = match target {
            Target::Primary(name) => {
                found = self.find(name).await?;
                &found
            }
            target => target,
        };
        let failed =
            |error: std::io::Error| Unreachable::because(format!("cannot connect to {target}"), error);
        match target {
            Target::Primary(_) => Err(Unreachable::passing("a sentinel names no address")),
            Target::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(failed)?;
                self.drive(target, stream, identity, config).await
            }
            Target::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                let Some(tls) = &self.tls else { return self.drive(target, stream, identity, config).await };
                let name = ServerName::try_from(host.clone()).map_err(|error| {
                    let what = format!("{target} has no name that a certificate could be for");
                    Unreachable::because(what, error).lasting()
                })?;
                let stream = tls.connect(name, stream).await.map_err(|error| {
                    let why = Unreachable::because(format!("no TLS with {target}"), &error);
                    if is_lasting(&error) { why.lasting() } else { why }
                })?;
                self.drive(target, stream, identity, config).await
            }
        }
    }

    /// Asks all sentinels at once where the primary is, and believes the first that knows. One that is behind names a
    /// replica: then a write is refused, and the connection made anew.
    async fn find(&self, name: &str) -> Result<Target, Unreachable> {
        let answers =
            self.options.sentinels.iter().map(|sentinel| Box::pin(self.ask_sentinel(sentinel, name)));
        select_ok(answers).await.map(|(target, _)| target)
    }

    async fn ask_sentinel(&self, sentinel: &Target, name: &str) -> Result<Target, Unreachable> {
        let connection = Box::pin(self.open(sentinel, silent(), config())).await?;
        let question = redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name).to_owned();
        let answer = connection.multiplexed.clone().send_packed_command(&question).await;
        match answer
            .map_err(|error| Unreachable::because(format!("{sentinel} does not answer"), chain(&error)))?
        {
            Value::Array(place) => match &place[..] {
                [Value::BulkString(host), Value::BulkString(port)] => {
                    let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
                    let host = String::from_utf8(host.clone()).ok();
                    let target = host.zip(port).map(|(host, port)| Target::Tcp(host, port));
                    target.ok_or_else(|| Unreachable::passing(format!("{sentinel} names no address")))
                }
                _ => Err(Unreachable::passing(format!("{sentinel} names no address"))),
            },
            Value::ServerError(error) => Err(no_sentinel(sentinel, &server_error(&error))),
            _ => Err(Unreachable::passing(format!("{sentinel} knows no primary {name:?}"))),
        }
    }

    async fn drive(
        &self,
        target: &Target,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        identity: RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<Connection, Unreachable> {
        let made = MultiplexedConnection::new_with_config(&identity, stream, config).await;
        let (multiplexed, driver) = made.map_err(|error| match error.code() {
            Some(code) => Unreachable::refused(&said(code, error.detail().unwrap_or_default())),
            None => Unreachable::because(format!("cannot connect to {target}"), chain(&error)),
        })?;
        let driver = tokio::spawn(driver).abort_handle();
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Ok(Connection { multiplexed, number, driver: Arc::new(Driver(driver)) })
    }

    /// Says who we are, and which database. Whether the server lets us in at all is found out here, where a failure
    /// holds others back.
    async fn introduce(&self, target: &Target, connection: &Connection) -> Result<(), Unreachable> {
        let mut words = redis::pipe();
        if let Some(password) = &self.options.password {
            let auth = words.cmd("AUTH");
            // Without a user: with one the server takes any password for a user that has none, and says nothing.
            if self.user() != DEFAULT_USER {
                auth.arg(self.user());
            }
            auth.arg(password);
        }
        if self.options.database != 0 {
            words.cmd("SELECT").arg(self.options.database);
        }
        let needed = words.len();
        words.add_command(name()).cmd("MULTI").cmd("EXEC");
        let count = words.len();
        let answers = connection.multiplexed.clone().send_packed_commands(&words, 0, count).await;
        let answers = answers
            .map_err(|error| Unreachable::because(format!("cannot connect to {target}"), chain(&error)))?;
        for (place, answer) in answers.iter().enumerate() {
            let Value::ServerError(error) = answer else { continue };
            let error = server_error(error);
            if place > needed {
                // A transaction of nothing tells whether there may be any.
                self.forbid_transactions();
                continue;
            }
            // The name is for people. What the server is not ready for yet it will say to the call, which can wait.
            let is_passing = is_brief(&error) || error.code == "NOPERM";
            if place < needed || !is_passing {
                return Err(Unreachable::refused(&error));
            }
        }
        Ok(())
    }

    fn user(&self) -> &str {
        self.options.user.as_deref().unwrap_or(DEFAULT_USER)
    }
}

/// Says nothing by itself when a connection is made.
fn silent() -> RedisConnectionInfo {
    RedisConnectionInfo::default().set_skip_set_lib_name()
}

/// What connections are called in the server's list of clients.
fn name() -> Cmd {
    redis::cmd("CLIENT").arg("SETNAME").arg("windlass").to_owned()
}

/// What it means that a sentinel does not say where the primary is.
fn no_sentinel(sentinel: &Target, error: &ServerError) -> Unreachable {
    let what = match error.meaning {
        Meaning::Defect => {
            format!("{sentinel} is not a Sentinel: name the port of one, 26379 unless it is set otherwise")
        }
        Meaning::Lasting(_) => format!("{sentinel} wants a password: Sentinels are asked without one"),
        _ => return Unreachable::refused(error),
    };
    Unreachable::because(what, error).lasting()
}

/// Without a limit of the driver's own: every call has a deadline.
fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None)
}

/// Whether connecting again cannot help: a certificate that is not trusted, or no TLS at the other side. What only
/// broke on the way has an error of the system.
fn is_lasting(error: &std::io::Error) -> bool {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(
        tls,
        Some(
            rustls::Error::InvalidCertificate(_)
                | rustls::Error::InvalidMessage(_)
                | rustls::Error::NoCertificatesPresented
                | rustls::Error::PeerIncompatible(_)
                | rustls::Error::AlertReceived(_)
        )
    )
}
