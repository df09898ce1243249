//! What stores on a server share, whatever the server: [`remote`] runs calls on a thread that drives the connections,
//! [`error`] says what a fault means to a caller, [`backoff`] spreads attempts, [`listen`] hears other processes and
//! [`tell`] tells them,
//! [`options`] reads parameters, [`tls`] knows whom to trust.
//!
//! It is for authors of stores, and knows no driver and no verb. It needs a runtime and TLS, which `windlass-core` must
//! not have.

pub mod backoff;
pub mod error;
pub mod listen;
pub mod options;
pub mod remote;
#[cfg(test)]
mod room;
pub mod tell;
pub mod tls;
