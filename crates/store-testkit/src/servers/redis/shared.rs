//! The Redis server that the tests of a run share.

use std::sync::OnceLock;

use super::{RedisServer, RedisSettings};

/// The server that `REDIS_URL` names, or else one that this process starts when it is first asked for.
///
/// Tests that share it keep to namespaces of their own. `cargo xtask test` sets the variable for all test
/// processes, so that a run has one server and not one per test.
#[derive(Debug)]
pub struct SharedRedis {
    url: String,
    /// Never dropped: its watchman ends it when this process has ended.
    _server: Option<RedisServer>,
}

impl SharedRedis {
    pub(super) fn get() -> &'static Self {
        static SHARED: OnceLock<SharedRedis> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var("REDIS_URL") {
            Ok(url) if !url.is_empty() => Self { url, _server: None },
            _ => {
                let server = RedisServer::start(&RedisSettings::default());
                Self { url: server.url(), _server: Some(server) }
            }
        })
    }

    /// Where to connect.
    pub fn url(&self) -> &str {
        &self.url
    }
}
