//! The clauses of the contract, one module per part. Each is a function that panics when the store under test
//! breaks it. The list in `for_each_clause` (`clauses/listed.rs`) is the only one: tests, run-time reports and names come from it,
//! and a test fails when a clause is missing in it.

pub mod aging;
pub mod amend;
pub mod at_once;
pub mod begin;
pub mod calls;
pub mod cancel;
pub mod capacity;
pub mod claim;
pub mod control;
pub mod duties;
pub mod ended;
pub mod enqueue;
pub mod fence;
pub mod follow_ups;
pub mod handles;
pub mod held;
pub mod keep;
pub mod keys;
pub mod late;
pub mod leases;
pub mod list;
mod listed;
pub mod progress;
pub mod promote;
pub mod prune;
pub mod queues;
pub mod reap;
pub mod records;
pub mod remove;
pub mod replace;
pub mod rules;
pub mod settle;
pub mod tallies;
pub mod tally_rows;
pub mod unique;
pub mod wakeup;

macro_rules! names {
    (() $($part:ident { $($clause:ident)* })*) => {
        &[$($(concat!(stringify!($part), "::", stringify!($clause))),*),*]
    };
}

/// Every clause as `part::clause`.
pub const NAMES: &[&str] = crate::for_each_clause! { (names) () };
