//! The Redis Cluster that the tests of a run share.

use std::sync::OnceLock;

use super::RedisCluster;

/// The Cluster that `REDIS_CLUSTER_URL` names, or else one that this process starts when it is first asked for,
/// which takes seconds.
///
/// Tests that share it keep to namespaces of their own. `cargo xtask test` sets the variable for all test
/// processes, so that a run has one Cluster and not one per test.
#[derive(Debug)]
pub struct SharedRedisCluster {
    url: String,
    /// Never dropped: the watchmen end it when this process has ended.
    _cluster: Option<RedisCluster>,
}

impl SharedRedisCluster {
    pub(super) fn get() -> &'static Self {
        static SHARED: OnceLock<SharedRedisCluster> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var("REDIS_CLUSTER_URL") {
            Ok(url) if !url.is_empty() => Self { url, _cluster: None },
            _ => {
                let cluster = RedisCluster::start();
                Self { url: cluster.url(), _cluster: Some(cluster) }
            }
        })
    }

    /// Where to connect.
    pub fn url(&self) -> &str {
        &self.url
    }
}
