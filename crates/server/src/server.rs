//! How a server is set up.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use windlass_worker::Client;

use crate::access::Access;
use crate::app::App;
use crate::bounds::Bounds;
use crate::hosts::Hosts;
use crate::{guard, page, ready, routes};

/// The API of a store: says how it is reached, then becomes a [router](Server::router), or serves on a socket
/// ([`Serving`](crate::Serving)).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use windlass_server::{Access, Server};
///
/// # let client = windlass_worker::Client::new(std::sync::Arc::new(windlass_store_memory::MemoryStore::new()));
/// let app = Server::new(&client).access(Access::Open).hosts(["jobs.internal"]).router();
/// # drop(app);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Server {
    pub(crate) client: Client,
    pub(crate) access: Access,
    pub(crate) hosts: Hosts,
    pub(crate) bounds: Bounds,
    pub(crate) is_secure: bool,
    pub(crate) keeps_up: bool,
}

impl Server {
    /// Of this client's store. Each request needs a token, and may name any host: the application around it decides.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            access: Access::Tokens,
            hosts: Hosts::Any,
            bounds: Bounds::default(),
            is_secure: false,
            keeps_up: true,
        }
    }

    /// Whether requests need a token.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// The host names that requests may have, beside those of this machine for itself; without a port. Others are refused
    /// with 421. Needed where no token is: a page of another site may make its own name point at this machine.
    #[must_use]
    pub fn hosts<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.hosts = Hosts::with(names.into_iter().map(Into::into));
        self
    }

    /// How much it takes and holds at once.
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Requests come by TLS, here or at a proxy before it: cookies are then for TLS only.
    #[must_use]
    pub fn secure(mut self) -> Self {
        self.is_secure = true;
        self
    }

    /// Leaves it to workers to keep the store in order: to take back jobs of lost leases, to promote, to prune, to heed rules
    /// for dead jobs. A server that [listens](Server::listen) does it otherwise, one for all of a fleet; a router never does.
    #[must_use]
    pub fn without_upkeep(mut self) -> Self {
        self.keeps_up = false;
        self
    }

    /// The router, to mount into an application of one's own, at its root.
    pub fn router(self) -> Router {
        router(self.app())
    }

    pub(crate) fn app(self) -> App {
        let Self { client, access, hosts, bounds, is_secure, keeps_up: _ } = self;
        App::new(&client, access, hosts, bounds, is_secure)
    }
}

pub(crate) fn router(app: App) -> Router {
    routes::router(&app)
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready::ready))
        .route("/api", get(page::page))
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}
