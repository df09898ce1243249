//! What stores on a server share, whatever the server: [`thread`] drives the connections, [`backoff`] spreads
//! attempts, [`error`] says what a lost answer means, [`listen`] hears other processes and [`tell`] tells them,
//! [`options`] reads parameters, [`tls`] knows whom to trust.
//!
//! It is for authors of stores, and knows no driver and no verb. It needs a runtime and TLS, which `windlass-core` must
//! not have.

pub mod backoff;
pub mod error;
pub mod listen;
pub mod options;
#[cfg(test)]
mod room;
pub mod tell;
pub mod thread;
pub mod tls;
