//! The server that the tests of a run share.

use std::sync::OnceLock;

use super::install::Install;
use super::{PostgresServer, Settings, psql};

/// The server that `DATABASE_URL` names, or else one that this process starts when it is first asked for.
///
/// Tests that share it keep to schemas of their own. `cargo xtask test` sets the variable for all test
/// processes, so that a run has one server and not one per test.
#[derive(Debug)]
pub struct SharedPostgres {
    url: String,
    /// Never dropped: its watchman ends it when this process has ended.
    _server: Option<PostgresServer>,
}

impl SharedPostgres {
    pub(super) fn get() -> &'static Self {
        static SHARED: OnceLock<SharedPostgres> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var("DATABASE_URL") {
            Ok(url) if !url.is_empty() => Self { url, _server: None },
            _ => {
                let server = PostgresServer::start(&Settings::default());
                Self { url: server.url(), _server: Some(server) }
            }
        })
    }

    /// Where to connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs SQL in the role of the URL and answers the rows, columns separated by `|`.
    ///
    /// # Panics
    ///
    /// When there is no `psql`, or the server refuses it.
    pub fn psql(&self, sql: &str) -> String {
        Install::find()
            .and_then(|install| psql(&install, &self.url, sql))
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}
