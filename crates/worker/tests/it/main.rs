//! The engine end to end, on the memory store.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(clippy::needless_pass_by_value, reason = "handlers get what they ask for by value")]

mod cancel;
mod client;
mod config;
mod drain;
mod faults;
mod faulty;
mod lag;
mod lease;
mod outcomes;
mod prefetch;
mod shutdown;
mod slots;
mod support;
mod timeouts;
mod wakeups;
