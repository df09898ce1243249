//! Serving on a socket: bounded connections, time limits for heads, TLS, and a stop that lets requests end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use windlass_worker::Upkeep;

use crate::access::{Access, Peer, Tokens};
use crate::app::App;
use crate::hosts::Hosts;
use crate::patience::Patience;
use crate::server::{Server, router};
use crate::tls::Tls;

/// The largest head of a request.
const HEAD_MAX: usize = 64 << 10;
/// How long the server waits after it could not accept a connection, as when it has no more file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a server does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Others could reach a server that asks for no token.
    #[error(
        "other machines could reach {address}, and no token would be asked for: make one with `windlass tokens create`, or listen on 127.0.0.1"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// The server would answer for a name of its own and ask for no token.
    #[error(
        "the host names {} are not those of this machine for itself, and no token would be asked for: make one with `windlass tokens create`", .names.join(", ")
    )]
    OpenHosts {
        /// The names.
        names: Vec<String>,
    },
    /// Tokens are asked for, and there is none.
    #[error("requests need a token, and the store has none: make one with `windlass tokens create`")]
    NoTokens,
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] windlass_worker::Error),
}

/// A server that listens.
pub struct Serving {
    listener: TcpListener,
    address: SocketAddr,
    app: App,
    router: Router,
    tls: Option<Tls>,
    keeps_up: bool,
}

impl Server {
    /// Listens on an address. Names of this machine for itself are always answered; others as
    /// [`hosts`](Server::hosts) says.
    ///
    /// # Errors
    /// When the address is not free, or other machines could reach a server that asks for no token.
    pub async fn listen(mut self, address: SocketAddr, tls: Option<Tls>) -> Result<Serving, ServeError> {
        let own = (!address.ip().is_unspecified()).then(|| match address {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        });
        let given = match &self.hosts {
            Hosts::Any => Vec::new(),
            Hosts::Only(names) => names.clone(),
        };
        self.check(address, &given).await?;
        self.hosts = Hosts::with(given.into_iter().chain(own));
        self.is_secure |= tls.is_some();
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| ServeError::Listen { address, error })?;
        let address = listener.local_addr().map_err(|error| ServeError::Listen { address, error })?;
        let keeps_up = self.keeps_up;
        let app = self.app();
        Ok(Serving { listener, address, router: router(app.clone()), app, tls, keeps_up })
    }

    async fn check(&self, address: SocketAddr, names: &[String]) -> Result<(), ServeError> {
        match self.access {
            Access::Open if !address.ip().is_loopback() => Err(ServeError::Open { address }),
            Access::Open if !names.is_empty() => Err(ServeError::OpenHosts { names: names.to_vec() }),
            Access::Open => Ok(()),
            Access::Tokens if Tokens::new(&self.client).any().await? => Ok(()),
            Access::Tokens => Err(ServeError::NoTokens),
        }
    }
}

impl Serving {
    /// Where it listens; with the port that it was given, if it asked for any.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL under which this machine reaches it.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match self.address.ip().is_unspecified() {
            true => format!("{scheme}://localhost:{}", self.address.port()),
            false => format!("{scheme}://{}", self.address),
        }
    }

    /// Answers requests until `stop` ends; then takes no more, tells streams to end, and waits a while for requests that are
    /// under way.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, app, router, tls, keeps_up, .. } = self;
        let upkeep = keeps_up.then(|| Upkeep::start(app.client()));
        let connections = Arc::new(Semaphore::new(app.bounds().connections));
        let graceful = GracefulShutdown::new();
        let mut stop = pin!(stop);
        loop {
            let place = tokio::select! {
                biased;
                () = &mut stop => break,
                place = Arc::clone(&connections).acquire_owned() => place,
            };
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = listener.accept() => accepted,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let router = Peered { router: router.clone(), peer: Peer(from.ip()) };
            let (tls, watcher) = (tls.clone(), graceful.watcher());
            let times = (app.bounds().head_time, app.bounds().read_time);
            tokio::spawn(async move {
                connection(stream, tls, router, watcher, times).await;
                drop(place);
            });
        }
        drop(listener);
        app.stop();
        if tokio::time::timeout(app.bounds().stop_time, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests were still under way when the server stopped");
        }
        if let Some(upkeep) = upkeep {
            upkeep.stop().await;
        }
    }
}

/// The router, which is told from where the connection comes.
#[derive(Clone)]
struct Peered {
    router: Router,
    peer: Peer,
}

impl tower::Service<Request<Incoming>> for Peered {
    type Response = axum::response::Response;
    type Error = std::convert::Infallible;
    type Future = axum::routing::future::RouteFuture<Self::Error>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // A router is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        tower::Service::call(&mut self.router, request)
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<Tls>,
    router: Peered,
    watcher: Watcher,
    times: (Duration, Duration),
) {
    // Answers are small and written at once.
    let _ = stream.set_nodelay(true);
    match tls {
        None => speak(stream, router, watcher, times).await,
        Some(tls) => match tokio::time::timeout(times.0, tls.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => speak(stream, router, watcher, times).await,
            Ok(Err(error)) => tracing::debug!(%error, "a connection did not begin with TLS"),
            Err(_) => tracing::debug!("a connection took too long to begin with TLS"),
        },
    }
}

async fn speak<S>(stream: S, router: Peered, watcher: Watcher, (head_time, read_time): (Duration, Duration))
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(Patience::new(stream, read_time)), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended");
    }
}
