//! A Windlass store over HTTP, in three parts.
//!
//! * [`wire`] says what travels: one [`Verb`](wire::Verb) for each call of `windlass_core::store`, as JSON, the stream of rings,
//!   and errors that keep their meaning. The client and the server share it.
//! * [`serve`] answers a verb from a store, for a caller with given rights. It knows no HTTP: `windlass-server` mounts it.
//! * `client`, by the feature of that name, is a store that calls a server. Programs open it by its URL, with
//!   `windlass::open("https://jobs.example")`, and then neither know nor need the database behind it.
//!
//! Whatever a caller may not know (an answer that was lost) stays unknown: no fault on the way is taken for success or
//! refusal.

#[cfg(feature = "client")]
pub mod client;
pub mod serve;
pub mod wire;

#[cfg(feature = "client")]
pub use client::{HttpOptions, HttpStore};
