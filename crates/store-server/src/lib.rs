//! What stores on a server share, whatever the server: [`thread`] drives the connections, [`backoff`] spreads
//! attempts, [`error`] says what a lost answer means, [`options`] reads parameters.
//!
//! It is for authors of stores. It knows no driver and no verb; `windlass-core` has no runtime, so this is not there.

pub mod backoff;
pub mod error;
pub mod options;
pub mod thread;
