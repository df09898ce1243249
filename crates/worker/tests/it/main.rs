//! The engine end to end, on the memory store.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod backoff;
mod batches;
mod blocked;
mod cancel;
mod client;
mod config;
mod dead;
mod drain;
mod events;
mod explain;
mod faults;
mod faulty;
mod flows;
mod follow;
mod isolation;
mod keys;
mod lease;
mod logs;
mod metrics;
mod moved;
mod outcomes;
mod prefetch;
mod queue;
mod redrive;
mod rules;
mod schedules;
mod shutdown;
mod sick;
mod slots;
mod support;
mod timeouts;
mod unique;
mod wakeups;
