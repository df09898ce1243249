//! The list of verbs: of each its name, what is sent, what comes back, what kind of call it is, what it touches, and how a
//! store is asked. A call that is added to the contract is added here, and to the client's traits.

mod answers;
mod asked;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::LostJob;
use windlass_core::queue::{QueueConfig, QueueRecord, Removed};
use windlass_core::record::{Record, RecordKey};
use windlass_core::store::{
    Amended, AttemptWrite, Begin, Cursor, Depth, Duty, EndPlace, Ended, Enqueued, Filter, Finding, JobPage,
    LeaseRecord, NewLease, Promotion, RecordPage, RecordTotals, Renewal, Right, Seen, Settled, Settlement,
    Shift, StoreResult, Swept,
};
use windlass_core::store::{ClaimRequest, Progress};
use windlass_core::tally::{Row, Window};
use windlass_core::{CallId, HolderId, JobId, JobRecord, LeaseId, Name, NewJob, State, Store, Timestamp};

use super::{Each, Sort, Touch, Verb};
pub use answers::{Claimed, QueuePage, StoreAbout, Written};
use asked::{
    ask_claim, ask_get, ask_list, ask_write, checked, checkup, ends, few, opened, records, tallies, written,
};

macro_rules! verbs {
    ($($name:literal $Verb:ident { $($field:ident: $Type:ty),* } -> $Answer:ty:
        $sort:ident, $reach:expr, |$store:ident| $run:expr;)*) => {
        $(
            #[doc = concat!("`", $name, "`: the call of that name of the contract.")]
            #[derive(Debug, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            #[allow(missing_docs)]
            pub struct $Verb { $(pub $field: $Type),* }

            impl Verb for $Verb {
                const NAME: &'static str = $name;
                const SORT: Sort = Sort::$sort;
                type Answer = $Answer;

                #[allow(unused_variables)]
                fn reach(&self) -> Touch<'_> {
                    let Self { $($field),* } = self;
                    $reach
                }

                async fn run(self, $store: &dyn Store) -> StoreResult<$Answer> {
                    let Self { $($field),* } = self;
                    $run
                }
            }
        )*

        /// The names of all verbs.
        pub const NAMES: &[&str] = &[$($name),*];

        /// What is done with the verb of a name.
        pub trait Visit {
            /// What comes of it.
            type Out;
            /// Does it.
            fn visit<V: Verb>(self) -> Self::Out;
        }

        /// Does something with the verb of this name; nothing where there is none.
        pub fn visit<T: Visit>(name: &str, visitor: T) -> Option<T::Out> {
            match name {
                $($name => Some(visitor.visit::<$Verb>()),)*
                _ => None,
            }
        }
    };
}

/// The queues of some items.
macro_rules! queues {
    ($items:expr) => {
        Touch::Queues($items.iter().map(|item| &item.queue).collect())
    };
}

verbs! {
    "about" Ask {} -> StoreAbout:
        Read, Touch::Any, |store| Ok(StoreAbout::of(store));

    "enqueue" Enqueue { call: CallId, jobs: Arc<[NewJob]> } -> Vec<Enqueued>:
        Work, queues!(jobs), |store| { checked(&jobs)?; store.enqueue_once(call, jobs).await };
    "claim" Claim { request: ClaimRequest } -> Claimed:
        Work, queues!(request.queues), |store| ask_claim(store, request).await;
    "begin" BeginAttempts { attempts: Arc<[Begin]> } -> Vec<Settled>:
        Work, queues!(attempts), |store| store.begin(attempts).await;
    "settle" Settle { settlements: Arc<[Settlement]> } -> Vec<Settled>:
        Work, queues!(settlements), |store| { ends(&settlements)?; store.settle(settlements).await };
    "settle_late" SettleLate { settlements: Arc<[Settlement]> } -> Vec<Settled>:
        Work, queues!(settlements), |store| { ends(&settlements)?; store.settle_late(settlements).await };
    "progress" Report { reports: Arc<[Progress]> } -> Vec<Settled>:
        Work, queues!(reports), |store| store.progress(reports).await;
    "get" Get { ids: Arc<[JobId]> } -> Each<Option<JobRecord>>:
        Read, Touch::Answer, |store| ask_get(store, ids).await;
    "states" States { ids: Arc<[JobId]> } -> Vec<Option<State>>:
        Read, Touch::Jobs(ids.to_vec()), |store| { few(&ids)?; store.states(ids).await };
    "cancel" Cancel { ids: Arc<[JobId]> } -> Vec<Amended>:
        Change, Touch::Jobs(ids.to_vec()), |store| { few(&ids)?; store.cancel(ids).await };
    "withdraw" Withdraw { ids: Arc<[JobId]> } -> Vec<Amended>:
        Change, Touch::Jobs(ids.to_vec()), |store| { few(&ids)?; store.withdraw(ids).await };
    "retry" Retry { ids: Arc<[JobId]> } -> Vec<Amended>:
        Change, Touch::Jobs(ids.to_vec()), |store| { few(&ids)?; store.retry(ids).await };
    "delete" Delete { ids: Arc<[JobId]> } -> Vec<Amended>:
        Change, Touch::Jobs(ids.to_vec()), |store| { few(&ids)?; store.delete(ids).await };
    "retry_seen" RetrySeen { jobs: Arc<[Seen]> } -> Vec<Amended>:
        Change, Touch::Jobs(jobs.iter().map(|job| job.id).collect()),
        |store| { few(&jobs)?; store.retry_seen(jobs).await };
    "delete_seen" DeleteSeen { jobs: Arc<[Seen]> } -> Vec<Amended>:
        Change, Touch::Jobs(jobs.iter().map(|job| job.id).collect()),
        |store| { few(&jobs)?; store.delete_seen(jobs).await };

    "open" Open { lease: NewLease } -> ():
        Lease, Touch::Queues(lease.queues.iter().collect()), |store| { opened(&lease)?; store.open(&lease).await };
    "renew" Renew { lease: LeaseId, ttl: Duration, limit: u32 } -> Renewal:
        Lease, Touch::Any, |store| store.renew(lease, ttl, limit).await;
    "close" Close { lease: LeaseId } -> ():
        Lease, Touch::Any, |store| store.close(lease).await;
    "lost" Lost { limit: u32 } -> Vec<LostJob>:
        Work, Touch::Answer, |store| store.lost(limit).await;
    "held" Held { lease: LeaseId, nonce: u64, queues: Arc<[Name]>, limit: u32 } -> Vec<LostJob>:
        Work, Touch::Queues(queues.iter().collect()), |store| store.held(lease, nonce, queues, limit).await;
    "reap" Reap { settlements: Arc<[Settlement]> } -> Vec<Settled>:
        Work, queues!(settlements), |store| { ends(&settlements)?; store.reap(settlements).await };
    "sweep" Sweep { limit: u32 } -> Swept:
        Work, Touch::Any, |store| store.sweep(limit).await;
    "leases" Leases { limit: u32 } -> Vec<LeaseRecord>:
        Read, Touch::Answer, |store| store.leases(limit).await;

    "define" Define { queue: Name, config: Box<QueueConfig> } -> ():
        Change, Touch::Queues(vec![queue]), |store| store.define(&queue, &config).await;
    "redefine" Redefine { queue: Name, before: Box<QueueConfig>, config: Box<QueueConfig> } -> bool:
        Change, Touch::Queues(vec![queue]), |store| store.redefine(&queue, &before, &config).await;
    "now" Now {} -> Timestamp:
        Read, Touch::Any, |store| store.now().await;
    "queues" Queues { after: Option<Name>, limit: u32 } -> QueuePage:
        Read, Touch::Answer, |store| QueuePage::of(store, after, limit).await;
    "queue" Queue { name: Name } -> Option<Each<QueueRecord>>:
        Read, Touch::Queues(vec![name]), |store| Ok(store.queue(&name).await?.map(|queue| Each(vec![queue])));
    "remove" Remove { queue: Name } -> Removed:
        Remove, Touch::Queues(vec![queue]), |store| store.remove(&queue).await;

    "list" List { filter: Filter, after: Option<Cursor>, limit: u32 } -> JobPage:
        Read, Touch::Answer, |store| ask_list(store, &filter, after.as_ref(), limit).await;
    "ended" EndedJobs { queue: Name, state: State, after: EndPlace, limit: u32 } -> Vec<Ended>:
        Read, Touch::Queues(vec![queue]), |store| store.ended(&queue, state, after, limit).await;

    "promote" Promote { limit: u32 } -> Promotion:
        Work, Touch::Any, |store| store.promote(limit).await;
    "prune" Prune { limit: u32 } -> u32:
        Work, Touch::Any, |store| store.prune(limit).await;
    "tidy" Tidy { limit: u32 } -> u32:
        Work, Touch::Any, |store| store.tidy(limit).await;
    "take_duty" TakeDuty { duty: Duty, holder: HolderId, ttl: Duration } -> Shift:
        Work, Touch::Any, |store| store.take_duty(duty, holder, ttl).await;
    "leave_duty" LeaveDuty { duty: Duty, holder: HolderId } -> ():
        Work, Touch::Any, |store| store.leave_duty(duty, holder).await;
    "examine" Examine { depth: Depth } -> Vec<Finding>:
        Read, Touch::Store, |store| checkup(store)?.examine(depth).await;

    "tallies" ReadTallies { window: Window } -> Vec<Row>:
        Read, Touch::Queues(window.queues.iter().collect()),
        |store| { few(&window.queues)?; tallies(store)?.tallies(&window).await };

    "read_records" ReadRecords { queue: Name, keys: Arc<[RecordKey]> } -> Vec<Option<Record>>:
        Read, Touch::Content(queue), |store| { few(&keys)?; records(store)?.read(&queue, keys).await };
    "list_records" ListRecords { queue: Name, prefix: String, after: Option<RecordKey>, limit: u32 } -> RecordPage:
        Read, Touch::Content(queue),
        |store| records(store)?.list(&queue, &prefix, after.as_ref(), limit).await;
    "totals" Totals { queue: Name } -> RecordTotals:
        Read, Touch::Queues(vec![queue]), |store| records(store)?.totals(&queue).await;
    "write" Write { call: CallId, queue: Name, what: FollowUps } -> Vec<Enqueued>:
        Work, Touch::Queues(what.jobs.iter().map(|job| &job.queue).chain([queue]).collect()),
        |store| { checked(&what.jobs)?; records(store)?.write(call, &queue, what).await };
    "write_fenced" WriteFenced { right: Right, items: Arc<[AttemptWrite]> } -> Vec<Written>:
        Work, written(items), |store| ask_write(store, right, items).await;
}
