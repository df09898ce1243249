//! What stores on a server share, whatever the server: [`thread`] drives the connections, [`backoff`] spreads
//! attempts, [`error`] says what a lost answer means, [`listen`] hears other processes, [`options`] reads parameters,
//! [`tls`] knows whom to trust.
//!
//! It is for authors of stores. It knows no driver and no verb; `windlass-core` has no runtime, so this is not there.

pub mod backoff;
pub mod error;
pub mod listen;
pub mod options;
pub mod thread;
pub mod tls;
