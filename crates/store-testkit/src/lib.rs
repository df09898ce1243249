//! The contract of Windlass stores as code.
//!
//! A store's author writes a [`Harness`] and attaches every clause, each as its own test, in one line:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use windlass_core::clock::ManualClock;
//! use windlass_core::store::SharedStore;
//! use windlass_store_memory::MemoryStore;
//! use windlass_store_testkit::{Harness, async_trait};
//!
//! #[derive(Default)]
//! struct Memory(ManualClock);
//!
//! #[async_trait]
//! impl Harness for Memory {
//!     async fn fresh(&self) -> SharedStore {
//!         Arc::new(MemoryStore::with_clock(Arc::new(self.0.clone())))
//!     }
//!     async fn another(&self, of: &SharedStore) -> Option<SharedStore> {
//!         Some(Arc::clone(of))
//!     }
//!     async fn advance(&self, by: Duration) {
//!         self.0.advance(by);
//!     }
//! }
//!
//! windlass_store_testkit::conformance!(Memory::default());
//! # fn main() {}
//! ```
//!
//! [`clauses`] has one module per part of the contract; [`run_all`] plays the same list at run time;
//! [`model`] plays random operations on the store and on the reference and compares what can be seen.
//! With the feature `servers`, the module `servers` starts the real servers that a store needs.

pub mod clauses;
pub mod fixture;
mod harness;
pub mod model;
mod report;
mod scene;
#[cfg(feature = "servers")]
pub mod servers;

pub use async_trait::async_trait;
pub use harness::{Exception, Harness};
pub use report::{Report, Verdict, run_all};

#[doc(hidden)]
pub use report::attached;

/// Attaches every clause and the model test to a store, each as a test of its own. The expression makes the
/// [`Harness`] and is evaluated once per test; it may await.
#[macro_export]
macro_rules! conformance {
    ($harness:expr) => {
        $crate::for_each_clause! { ($crate::attach_clauses) ($harness) }

        #[test]
        fn model() {
            $crate::attached::model(async { $harness });
        }

        #[test]
        fn exceptions() {
            $crate::attached::exceptions(async { $harness });
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! attach_clauses {
    (($harness:expr) $($part:ident { $($clause:ident)* })*) => {
        $(mod $part {
            #[allow(unused_imports)]
            use super::*;
            $(#[test]
            fn $clause() {
                let name = concat!(stringify!($part), "::", stringify!($clause));
                $crate::attached::clause(name, async { $harness }, async |harness| {
                    $crate::clauses::$part::$clause(harness).await;
                });
            })*
        })*
    };
}
