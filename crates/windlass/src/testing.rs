//! What tests of jobs need: a client in memory, a clock that the test moves, and questions about what was
//! enqueued. [`Worker::drain`](crate::Worker::drain) runs what is ready.
//!
//! ```
//! use std::time::Duration;
//! use serde::{Deserialize, Serialize};
//! use windlass::{Client, Job, JobError, Worker, testing};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Remind { user: u64 }
//! impl Job for Remind { const KIND: &'static str = "remind"; type Output = (); }
//!
//! #[derive(Serialize, Deserialize)]
//! struct SignUp { user: u64 }
//! impl Job for SignUp { const KIND: &'static str = "sign_up"; type Output = (); }
//!
//! async fn sign_up(job: SignUp, client: Client) -> Result<(), JobError> {
//!     client.enqueue(Remind { user: job.user }).delay(Duration::from_secs(3600)).await?;
//!     Ok(())
//! }
//! async fn remind(_job: Remind) -> Result<(), JobError> { Ok(()) }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! let (client, clock) = testing::client();
//! let worker = || Worker::new(&client).handle(sign_up).handle(remind);
//! client.enqueue(SignUp { user: 7 }).await?;
//! assert_eq!(worker().drain().await?.completed, 1);
//!
//! testing::assert_enqueued::<Remind>(&client, |job| job.user == 7).await;
//! clock.advance(Duration::from_secs(3600));
//! assert_eq!(worker().drain().await?.completed, 1);
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use windlass_core::Name;
use windlass_core::clock::ManualClock;
use windlass_core::store::{Filter, PAGE_MAX};
use windlass_store_memory::MemoryStore;
use windlass_worker::Job;

use crate::Client;

/// A client of an empty store in memory, and the clock that this store reads. Must be called inside a tokio
/// runtime.
///
/// # Panics
/// Outside a tokio runtime.
pub fn client() -> (Client, ManualClock) {
    let clock = ManualClock::default();
    (Client::new(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())))), clock)
}

/// The jobs of one type that the store has and that have not come to their end, oldest first.
///
/// # Panics
/// When the store does not answer, or a payload is not of this type.
pub async fn enqueued<J: Job>(client: &Client) -> Vec<J> {
    let kind = Name::new(J::KIND).expect("the kind of a job type is a name");
    let filter = Filter { kind: Some(kind), ..Filter::default() };
    let (mut jobs, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.store().list(&filter, cursor.as_ref(), PAGE_MAX).await.expect("the store answers");
        jobs.extend(page.jobs.into_iter().filter(|job| !job.state.is_terminal()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let decode = |payload: &[u8]| serde_json::from_slice(payload);
    jobs.iter().rev().map(|job| decode(&job.payload).expect("payloads of a kind are of its type")).collect()
}

/// Passes when a job of this type for which `wanted` holds has been enqueued and not come to its end.
///
/// # Panics
/// When there is none.
#[track_caller]
pub fn assert_enqueued<J: Job>(client: &Client, wanted: impl Fn(&J) -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let jobs = enqueued::<J>(client).await;
        let (count, found) = (jobs.len(), jobs.iter().any(wanted));
        assert!(found, "{caller}: none of {count} enqueued jobs of kind `{}` is the wanted one", J::KIND);
    }
}
