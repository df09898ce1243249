//! The contract of stores, on a Cluster of three primaries with replicas.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "harness/namespaces.rs"]
mod namespaces;

use namespaces::Namespaces;
use windlass_store_testkit::servers::RedisCluster;

windlass_store_testkit::conformance!(Namespaces::new(RedisCluster::shared().url()));
