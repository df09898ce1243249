//! The PostgreSQL store of Windlass: jobs beside the rest of an application's content, for one process or a fleet.

mod connect;
mod error;
mod options;
mod session;
mod tls;
mod wakeup;

pub use options::{Listen, Migrate, PostgresOptions, SslMode, SynchronousCommit};
