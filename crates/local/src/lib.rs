//! Work that needs no store: a queue of closures or items with bounded concurrency, a batch collector, and
//! rate limiters.
//!
//! * [`Queue`]: at most so many at once; priorities, capacity, timeouts, rates, limits per key, cancellation,
//!   events. Every [`Handle`] settles in every ending.
//! * [`Batcher`]: items come one by one and go out together; each caller learns what became of its own.
//! * [`TokenBucket`] and [`SlidingWindow`]: permission to go on, for work that is started elsewhere.
//!
//! Nothing in here survives the end of the process. Work that has to is a job, with the same words: see the
//! `windlass` crate.

mod batcher;
mod clock;
mod error;
mod handle;
mod limiter;
mod machine;
mod queue;
mod runner;
#[cfg(test)]
mod schedules;
mod shared;
mod source;
mod sync;
mod token;
mod work;

pub use batcher::{BatchBuilder, BatchError, Batcher, Outcome};
pub use error::{ConfigError, Error, Refused, Why};
pub use handle::Handle;
pub use limiter::{LimitError, SlidingWindow, TokenBucket};
pub use machine::feed::Event;
pub use machine::rate::Rate;
pub use machine::{Counts, Failure, Id, Order, Running, Waiting};
pub use queue::Queue;
pub use queue::add::With;
pub use queue::builder::Builder;
pub use queue::events::Events;
pub use queue::map::{Map, each};
pub use queue::scope::Driver;
pub use queue::until::Until;
pub use token::Token;
pub use work::{Accepts, Borrowed, Closure, Delivers, Item, Work};
