//! The contract of stores, on a real server.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "harness/namespaces.rs"]
mod namespaces;

use namespaces::Namespaces;
use windlass_store_testkit::servers::RedisServer;

windlass_store_testkit::conformance!(Namespaces::new(RedisServer::shared().url()));
