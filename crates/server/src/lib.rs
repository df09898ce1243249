//! The HTTP API of Windlass: everything that the library can do, for programs in any language and for people.
//!
//! [`Server`] holds how it is set up and makes a [`router`] to mount into an application of one's own, or serves one on a
//! socket. A request passes the guard (`guard`: which Host, who asks, from which site), then one line of the table of routes
//! (`routes`), which says what role it needs, and then a handler in `api`, which calls the [`Client`] and nothing else.
//! Wire types live beside their handlers. Programs use the `windlass` crate, which has this as feature `server`.

mod access;
mod api;
mod app;
mod audit;
mod bounds;
mod document;
mod extract;
mod guard;
mod hosts;
mod masks;
mod page;
mod patience;
mod problem;
mod ready;
mod routes;
mod serve;
mod server;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

use windlass_worker::Client;

pub use access::{Access, NewToken, Role, TokenView, Tokens};
pub use audit::{AuditEntry, AuditLog, AuditPage};
pub use bounds::Bounds;
pub use document::openapi_text;
pub use problem::{Code, Problem};
pub use serve::{ServeError, Serving};
pub use server::Server;
pub use tls::{Tls, TlsError};

/// The API of this client's store, to mount into an application of one's own. Each request needs a token: make one with
/// [`Tokens`], or with `windlass tokens create`. [`Server`] sets more.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let client = windlass_worker::Client::new(std::sync::Arc::new(windlass_store_memory::MemoryStore::new()));
/// let app: axum::Router = axum::Router::new().merge(windlass_server::router(&client));
/// # drop(app);
/// # }
/// ```
pub fn router(client: &Client) -> axum::Router {
    Server::new(client).router()
}
