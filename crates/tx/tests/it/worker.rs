//! The engine around handlers that complete their jobs within transactions: a ledger stays exact whatever
//! becomes of the attempts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::Connection;
use tokio::sync::Notify;
use windlass_core::outcome::{Ending, Outcome};
use windlass_core::retry::{Jitter, Policy};
use windlass_core::store::{Amended, Settlement};
use windlass_core::{JobRecord, Options, State, judge};
use windlass_worker::{Client, Ctx, Error, Handle, Job, JobError, Running, State as Shared, Wakeups, Worker};

use crate::support::{File, PATIENCE};

/// Longer than any test has patience, also as an interval of polls, of which the first come up to 16 times as
/// often.
const NEVER: Duration = Duration::from_secs(3 * 30 * 16);

/// What a transfer does in its first attempt; later ones commit.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum First {
    Commit,
    /// Returns `Ok` and has rolled back.
    Forget,
    FailBeforeCommit,
    FailAfterCommit,
    PanicAfterCommit,
    /// Waits until it is dropped.
    HangBeforeCommit,
    HangAfterCommit,
    /// Has lost its job when it completes it.
    Lose,
    /// Waits until the test lets it go on, then commits or forgets.
    WaitAndCommit,
    WaitAndForget,
}

#[derive(Debug, Serialize, Deserialize)]
struct Transfer {
    amount: i64,
    first: First,
}

impl Job for Transfer {
    const KIND: &'static str = "transfer";
    type Output = String;

    fn options() -> Options {
        Options::new().retry(Policy::fixed(5, Duration::ZERO).jitter(Jitter::None))
    }
}

#[derive(Clone)]
struct Bank {
    scene: Arc<File>,
    attempts: Arc<AtomicU64>,
    /// An attempt waits where it was told to.
    waits: Arc<Notify>,
    go_on: Arc<Notify>,
}

async fn transfer(job: Transfer, ctx: Ctx, Shared(bank): Shared<Bank>) -> Result<String, JobError> {
    bank.attempts.fetch_add(1, Ordering::SeqCst);
    let first = if ctx.fence().number == 1 { job.first } else { First::Commit };
    if let First::WaitAndCommit | First::WaitAndForget = first {
        bank.waits.notify_one();
        bank.go_on.notified().await;
    }
    if let First::Lose = first {
        lose(&ctx).await;
    }
    let mut connection = bank.scene.sqlx().await;
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO ledger VALUES (?)").bind(job.amount).execute(&mut *tx).await?;
    ctx.complete_within_with(&mut tx, &format!("moved {}", job.amount)).await?;
    match first {
        First::Forget | First::WaitAndForget => return Ok("never stored".to_owned()),
        First::FailBeforeCommit => return Err(JobError::new("before the commit")),
        First::HangBeforeCommit => {
            bank.waits.notify_one();
            std::future::pending::<()>().await;
        }
        _ => tx.commit().await?,
    }
    match first {
        First::FailAfterCommit => Err(JobError::fail("after the commit")),
        First::PanicAfterCommit => panic!("after the commit"),
        First::HangAfterCommit => std::future::pending().await,
        _ => Ok("never stored".to_owned()),
    }
}

/// Hands the job back behind the attempt's back, as a reaper would take it.
async fn lose(ctx: &Ctx) {
    let found = ctx.client().job(ctx.id()).await.unwrap().unwrap();
    let facts = windlass_core::job::Facts {
        counters: found.counters,
        retry: found.retry,
        stalls_max: found.stalls_max,
    };
    let transition = judge(&facts, Outcome::Returned, 0.0);
    let settlement = Settlement { queue: ctx.queue().clone(), id: ctx.id(), fence: ctx.fence(), transition };
    ctx.client().store().settle(&[settlement]).await.unwrap();
}

struct Test {
    client: Client,
    bank: Bank,
}

impl Test {
    async fn new() -> Self {
        let scene = Arc::new(File::new().await);
        let client = Client::new(Arc::clone(&scene.store) as Arc<_>);
        let (attempts, waits, go_on) = Default::default();
        Self { client, bank: Bank { scene, attempts, waits, go_on } }
    }

    fn worker(&self) -> Worker<Bank> {
        Worker::with_state(&self.client, self.bank.clone())
            .handle(transfer)
            .cancel_grace(Duration::from_millis(50))
            .lease_unchecked(Duration::from_secs(2))
            .reap_interval(Duration::from_millis(20))
    }

    fn start(&self) -> Running {
        self.worker().start().unwrap()
    }

    async fn enqueue(&self, first: First) -> Handle<Transfer> {
        self.client.enqueue(Transfer { amount: 7, first }).await.unwrap()
    }

    /// Runs one transfer to its end and sees that the ledger has it once.
    async fn run(&self, first: First) -> (JobRecord, u64) {
        let running = self.worker().timeout(Duration::from_millis(300)).start().unwrap();
        let record = end_of(&self.enqueue(first).await).await;
        running.stop().await;
        assert_eq!(record.state, State::Completed);
        assert_eq!(record.output.as_deref(), Some(&b"\"moved 7\""[..]));
        assert_eq!(self.bank.scene.ledger(), 7, "once, after {first:?}");
        (record, self.attempts())
    }

    fn attempts(&self) -> u64 {
        self.bank.attempts.load(Ordering::SeqCst)
    }
}

async fn end_of(handle: &Handle<Transfer>) -> JobRecord {
    let finished = tokio::time::timeout(PATIENCE, handle.finished()).await;
    finished.expect("the job comes to its end").expect("the store has the job")
}

#[tokio::test]
async fn a_committed_transaction_completes_the_job() {
    let test = Test::new().await;
    let running = test.start();
    let handle = test.enqueue(First::Commit).await;
    assert_eq!(handle.output().await.unwrap(), "moved 7");
    let record = end_of(&handle).await;
    assert_eq!((record.attempts.len(), record.attempts[0].ending), (1, Some(Ending::Completed)));
    running.stop().await;
    assert_eq!((test.attempts(), test.bank.scene.ledger()), (1, 7));
}

#[tokio::test]
async fn a_commit_of_its_own_does_not_count_as_late() {
    let test = Test::new().await;
    let running = test.start();
    end_of(&test.enqueue(First::Commit).await).await;
    // The outcome is handed in after the commit was seen.
    let settled = async {
        while running.health().running > 0 || running.health().unsettled > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.expect("the attempt is settled");
    assert_eq!(running.health().fenced, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_forgotten_commit_runs_the_job_again() {
    let test = Test::new().await;
    let (record, attempts) = test.run(First::Forget).await;
    assert_eq!(attempts, 2);
    assert_eq!(record.attempts[0].ending, Some(Ending::Failed));
    let error = record.attempts[0].error.as_deref().unwrap();
    assert!(error.contains("within a transaction that was not committed"), "{error}");
}

#[tokio::test]
async fn an_error_before_the_commit_is_an_ordinary_failure() {
    let test = Test::new().await;
    let (record, attempts) = test.run(First::FailBeforeCommit).await;
    assert_eq!((attempts, record.attempts[0].error.as_deref()), (2, Some("before the commit")));
}

#[tokio::test]
async fn nothing_after_the_commit_takes_the_completion_back() {
    for first in [First::FailAfterCommit, First::PanicAfterCommit, First::HangAfterCommit] {
        let test = Test::new().await;
        let (record, attempts) = test.run(first).await;
        assert_eq!((attempts, record.attempts.len()), (1, 1), "{first:?}");
    }
}

#[tokio::test]
async fn a_timeout_before_the_commit_drops_the_transaction() {
    let test = Test::new().await;
    let (record, attempts) = test.run(First::HangBeforeCommit).await;
    assert_eq!((attempts, record.attempts[0].ending), (2, Some(Ending::TimedOut)));
}

#[tokio::test]
async fn an_attempt_that_has_lost_its_job_cannot_commit() {
    let test = Test::new().await;
    let (record, attempts) = test.run(First::Lose).await;
    assert_eq!(attempts, 2);
    let endings: Vec<_> = record.attempts.iter().map(|attempt| attempt.ending).collect();
    assert_eq!(endings, [Some(Ending::Returned), Some(Ending::Completed)]);
}

#[tokio::test]
async fn a_worker_that_stops_hands_the_uncommitted_job_back() {
    let test = Test::new().await;
    let running = test.start();
    let handle = test.enqueue(First::HangBeforeCommit).await;
    test.bank.waits.notified().await;
    running.stop_now().await;
    assert_eq!((test.bank.scene.ledger(), handle.state().await.unwrap()), (0, Some(State::Ready)));
    let running = test.start();
    assert_eq!(end_of(&handle).await.state, State::Completed);
    running.stop().await;
    assert_eq!(test.bank.scene.ledger(), 7);
}

#[tokio::test]
async fn a_worker_that_dies_before_the_commit_leaves_no_effect_and_the_job_runs_again() {
    let test = Test::new().await;
    let running = test.start();
    let handle = test.enqueue(First::HangBeforeCommit).await;
    test.bank.waits.notified().await;
    running.abort();
    let running = test.start();
    let record = end_of(&handle).await;
    running.stop().await;
    assert_eq!(record.state, State::Completed);
    assert_eq!(record.attempts[0].ending, Some(Ending::Stalled));
    assert_eq!((test.bank.scene.ledger(), test.attempts()), (7, 2));
}

#[tokio::test]
async fn a_request_to_cancel_counts_only_if_nothing_was_committed() {
    for (first, state, ledger) in
        [(First::WaitAndCommit, State::Completed, 7), (First::WaitAndForget, State::Cancelled, 0)]
    {
        let test = Test::new().await;
        // Long enough for the attempt to go on although it was told to stop.
        let running = test.worker().cancel_grace(PATIENCE).start().unwrap();
        let handle = test.enqueue(first).await;
        test.bank.waits.notified().await;
        assert_eq!(test.client.cancel(handle.id()).await.unwrap(), Amended::Done(State::Running));
        test.bank.go_on.notify_one();
        assert_eq!(end_of(&handle).await.state, state, "{first:?}");
        running.stop().await;
        assert_eq!(test.bank.scene.ledger(), ledger, "{first:?}");
    }
}

#[tokio::test]
async fn a_drain_counts_what_the_transactions_decided() {
    let test = Test::new().await;
    for first in [First::Commit, First::Forget, First::FailAfterCommit] {
        test.enqueue(first).await;
    }
    let drained = test.worker().drain().await.unwrap();
    assert_eq!((drained.completed, drained.retried, drained.dead), (3, 1, 0));
    assert_eq!(test.bank.scene.ledger(), 21);
}

#[tokio::test]
async fn a_job_of_a_committed_transaction_wakes_an_idle_worker() {
    let test = Test::new().await;
    let running = test.worker().wakeups(Wakeups::On).poll_interval(NEVER).lease(NEVER).start().unwrap();
    // From here on the worker has found its queue empty.
    end_of(&test.enqueue(First::Commit).await).await;
    let mut connection = test.bank.scene.sqlx().await;
    let mut tx = connection.begin().await.unwrap();
    let job = Transfer { amount: 1, first: First::Commit };
    let handle = test.client.enqueue(job).priority(3).within(&mut tx).await.unwrap();
    assert!(handle.is_new());
    assert_eq!(handle.state().await.unwrap(), None, "not before the commit");
    tx.commit().await.unwrap();
    assert_eq!(end_of(&handle).await.priority, 3);

    let mut tx = connection.begin().await.unwrap();
    let jobs = (0..20).map(|amount| Transfer { amount, first: First::Commit });
    let handles = test.client.enqueue_all(jobs).within(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    for handle in &handles {
        assert_eq!(end_of(handle).await.state, State::Completed);
    }
    running.stop().await;
    assert_eq!(test.bank.scene.ledger(), 7 + 1 + 190);
}

#[derive(Debug, Serialize, Deserialize)]
struct Blocking;

impl Job for Blocking {
    const KIND: &'static str = "blocking";
    type Output = ();
}

fn blocking(_: Blocking, ctx: Ctx, Shared(bank): Shared<Bank>) -> Result<(), JobError> {
    let mut connection = bank.scene.rusqlite();
    let mut tx = connection.transaction()?;
    tx.execute("INSERT INTO ledger VALUES (5)", [])?;
    ctx.client().enqueue(Transfer { amount: 2, first: First::Commit }).within_blocking(&mut tx)?;
    ctx.complete_within_blocking(&mut tx)?;
    Ok(tx.commit()?)
}

#[tokio::test]
async fn blocking_handlers_use_blocking_drivers() {
    let test = Test::new().await;
    test.client.enqueue(Blocking).await.unwrap();
    let drained = test.worker().handle_blocking(blocking).drain().await.unwrap();
    assert_eq!((drained.completed, drained.total()), (2, 2));
    assert_eq!(test.bank.scene.ledger(), 7);
}

#[tokio::test]
async fn a_store_without_transactions_says_so() {
    let client = Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    let mut connection = rusqlite::Connection::open_in_memory().unwrap();
    let refused = client.enqueue(Blocking).within(&mut connection).await;
    assert!(matches!(refused, Err(Error::Store(windlass_core::StoreError::Transaction(_)))));
}
