//! Background jobs that start in one file and grow to a fleet.
//!
//! ```no_run
//! use serde::{Deserialize, Serialize};
//! use windlass::{Ctx, Job, JobError, Worker};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Greet { name: String }
//!
//! impl Job for Greet {
//!     const KIND: &'static str = "greet";            // a stored contract, never the Rust type's path
//!     type Output = ();
//! }
//!
//! async fn greet(job: Greet, ctx: Ctx) -> Result<(), JobError> {
//!     println!("hello {}, attempt {}", job.name, ctx.attempt());
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> windlass::Result<()> {
//!     let client = windlass::open("sqlite://jobs.db").await?;
//!     client.enqueue(Greet { name: "Ferris".into() }).await?;
//!     Worker::new(&client).handle(greet).run().await           // SIGTERM drains; store errors never kill it
//! }
//! ```
//!
//! * A **job** is a serde type with a stored name: [`Job`].
//! * [`open()`] gives a [`Client`], which enqueues jobs: [`Client::enqueue`] is a builder that is awaited and answers a
//!   [`Handle`].
//! * A [`Worker`] runs them. Handlers are plain functions; beside their job they may ask for [`Ctx`],
//!   [`State`], [`Client`], or anything with [`FromCtx`].
//! * An error says what becomes of the job: any `std::error::Error` is tried again, [`ResultExt::fail`] is
//!   not, [`JobError`] and [`Classify`] say more.
//! * [`Client::schedule`] lets jobs come with the clock: [`schedule::Schedule`].
//! * [`Client::flow`] lets jobs wait for other jobs: [`flow`].
//! * [`Client::queue`] answers everyday questions about a queue: [`QueueHandle`].
//! * [`check`] names what is wrong with a handler that does not compile.
//! * [`testing`] has what tests of jobs need.
//! * [`local`] is for work that needs no store: an in-process queue, a batch collector, limiters.
//! * [`worker`] has what is named less often: the builders, the parts of a worker, its health in detail. [`core`] is
//!   for authors of stores: the contract and its words.
//!
//! A job is run at least once. Every claim gets a fence, and an attempt that has lost its job can no longer
//! write anything about it.
//!
//! ## Features
//!
//! | feature | store |
//! |---|---|
//! | `sqlite` (default) | `sqlite://path`: durable jobs in an embedded file |
//! | `postgres` | `postgres://user@host/database`: beside an application's own tables, for a fleet |
//! | `redis` | `redis://host`, `redis-cluster://host,host`: as fast as memory, as durable as the server is set to be |
//! | `http` | `https://host`: a store behind a Windlass server, without access to its database |
//! | always there | `memory:`: for tests, and for work that may be lost |
//!
//! | feature | transactions to enqueue and complete in |
//! |---|---|
//! | `sqlx` | sqlx 0.9, with SQLite and PostgreSQL, whichever store is on |
//! | `rusqlite` | rusqlite |
//! | `sqlx-08` | sqlx 0.8, with PostgreSQL |
//! | `tokio-postgres` | tokio-postgres |
//!
//! | feature | otherwise |
//! |---|---|
//! | `local` (default) | [`local`]: work that needs no store |
//! | `server` | `server`: the HTTP API, as a router to mount and as a server |
//! | `capture` | `worker::CaptureLayer`: events of `tracing` in the logs of attempts |
//! | `metrics` | `Metrics`: what workers count and measure, as text for Prometheus |
//! | `opentelemetry` | spans around enqueue, claim, attempt and settlement |

pub mod check;
pub mod flow;
#[cfg(doctest)]
mod guides;
mod open;
pub mod testing;

pub use open::open;

pub use windlass_core as core;
pub use windlass_core::job::JobRecord;
pub use windlass_core::outcome::{Ending, Reason};
pub use windlass_core::queue;
pub use windlass_core::retry::{Jitter, Policy as Retry};
pub use windlass_core::schedule;
pub use windlass_core::{JobId, Options, Outcome, State as JobState, StoreErrorKind};
#[cfg(feature = "local")]
pub use windlass_local as local;
#[cfg(feature = "server")]
pub use windlass_server as server;
pub use windlass_tx::{BlockingTx, Tx, Versioned};
pub use windlass_worker as worker;
#[cfg(feature = "metrics")]
pub use windlass_worker::Metrics;
pub use windlass_worker::{
    Classify, Client, Ctx, Error, FromCtx, FromRef, Handle, Job, JobError, OutputError, QueueHandle, Result,
    ResultExt, Running, State, Verdict, Worker,
};
