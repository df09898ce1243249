//! A bank whose transfers are jobs that complete within the transaction that books them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, Connection};
use tokio::sync::Notify;
use windlass_core::outcome::Outcome;
use windlass_core::retry::{Jitter, Policy};
use windlass_core::store::{Settlement, Store};
use windlass_core::{JobRecord, Options, State, judge};
use windlass_worker::{Client, Ctx, Handle, Job, JobError, LogLevel, Running, State as Shared, Worker};

use crate::support::schema::url;
use crate::support::{File, PATIENCE, Schema};

/// What a transfer does in its first attempt; later ones commit.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum First {
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
pub(crate) struct Transfer {
    pub(crate) amount: i64,
    pub(crate) first: First,
}

impl Job for Transfer {
    const KIND: &'static str = "transfer";
    type Output = String;

    fn options() -> Options {
        Options::new().retry(Policy::fixed(5, Duration::ZERO).jitter(Jitter::None))
    }
}

/// Where the jobs and the ledger are.
#[derive(Clone)]
pub(crate) enum Place {
    Sqlite(Arc<File>),
    Postgres(Arc<Schema>),
}

impl Place {
    pub(crate) async fn sqlite() -> Self {
        Self::Sqlite(Arc::new(File::new().await))
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Arc::new(Schema::new().await))
    }

    fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(file) => Arc::clone(&file.store),
            Self::Postgres(schema) => Arc::clone(&schema.store),
        }
    }

    pub(crate) fn ledger(&self) -> i64 {
        match self {
            Self::Sqlite(file) => file.ledger(),
            Self::Postgres(schema) => schema.ledger(),
        }
    }
}

/// Does the same in a transaction of either database. The body leaves by `return` or falls out after a commit.
macro_rules! in_transaction {
    ($place:expr, |$tx:ident, $pay:ident| $body:expr) => {
        match $place {
            Place::Sqlite(file) => {
                let mut connection = file.sqlx().await;
                let mut $tx = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
                let $pay = |amount: i64| format!("INSERT INTO ledger VALUES ({amount})");
                $body
            }
            Place::Postgres(schema) => {
                let mut connection = sqlx::PgConnection::connect(url()).await.unwrap();
                let mut $tx = connection.begin().await.unwrap();
                let $pay = |amount: i64| schema.pay(amount);
                $body
            }
        }
    };
}

pub(crate) use in_transaction;

#[derive(Clone)]
pub(crate) struct Bank {
    pub(crate) place: Place,
    attempts: Arc<AtomicU64>,
    /// An attempt waits where it was told to.
    pub(crate) waits: Arc<Notify>,
    pub(crate) go_on: Arc<Notify>,
}

pub(crate) async fn transfer(
    job: Transfer,
    ctx: Ctx,
    Shared(bank): Shared<Bank>,
) -> Result<String, JobError> {
    bank.attempts.fetch_add(1, Ordering::SeqCst);
    let first = if ctx.fence().number == 1 { job.first } else { First::Commit };
    if let First::WaitAndCommit | First::WaitAndForget = first {
        bank.waits.notify_one();
        bank.go_on.notified().await;
    }
    if let First::Lose = first {
        lose(&ctx).await;
    }
    ctx.log(LogLevel::Info, "before the transaction");
    ctx.percent(50)?;
    in_transaction!(&bank.place, |tx, pay| {
        sqlx::query(AssertSqlSafe(pay(job.amount))).execute(&mut *tx).await?;
        ctx.log(LogLevel::Info, "in the transaction");
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
    });
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
    let facts = windlass_core::job::Facts { counters: found.counters, spec: found.spec };
    let transition = judge(&facts, Outcome::Returned, 0.0);
    let settlement = Settlement { queue: ctx.queue().clone(), id: ctx.id(), fence: ctx.fence(), transition };
    ctx.client().store().settle([settlement].into()).await.unwrap();
}

pub(crate) struct Test {
    pub(crate) client: Client,
    pub(crate) bank: Bank,
}

impl Test {
    pub(crate) fn at(place: Place) -> Self {
        let client = Client::new(place.store());
        let (attempts, waits, go_on) = Default::default();
        Self { client, bank: Bank { place, attempts, waits, go_on } }
    }

    pub(crate) fn ledger(&self) -> i64 {
        self.bank.place.ledger()
    }

    pub(crate) fn worker(&self) -> Worker<Bank> {
        Worker::with_state(&self.client, self.bank.clone())
            .handle(transfer)
            .cancel_grace(Duration::from_millis(50))
            .lease_unchecked(Duration::from_secs(2))
            .reap_interval(Duration::from_millis(20))
    }

    pub(crate) fn start(&self) -> Running {
        self.worker().start().unwrap()
    }

    pub(crate) async fn enqueue(&self, first: First) -> Handle<Transfer> {
        self.client.enqueue(Transfer { amount: 7, first }).await.unwrap()
    }

    /// Runs one transfer to its end and sees that the ledger has it once.
    pub(crate) async fn run(&self, first: First) -> (JobRecord, u64) {
        let before = self.ledger();
        // Short only where an attempt hangs: a busy machine may need as long for one that does not.
        let hangs = matches!(first, First::HangBeforeCommit | First::HangAfterCommit);
        let timeout = if hangs { Duration::from_millis(300) } else { PATIENCE };
        let running = self.worker().timeout(timeout).start().unwrap();
        let record = end_of(&self.enqueue(first).await).await;
        running.stop().await;
        assert_eq!(record.state, State::Completed);
        assert_eq!(record.output.as_deref(), Some(&b"\"moved 7\""[..]));
        assert_eq!(self.ledger() - before, 7, "once, after {first:?}");
        (record, self.attempts())
    }

    /// What the attempts of a transfer have said.
    pub(crate) async fn said(&self, handle: &Handle<Transfer>) -> Vec<String> {
        let lines = self.client.logs(handle.id()).await.unwrap().unwrap().next().await.unwrap();
        lines.into_iter().map(|line| line.text).collect()
    }

    pub(crate) fn attempts(&self) -> u64 {
        self.bank.attempts.load(Ordering::SeqCst)
    }
}

pub(crate) async fn end_of(handle: &Handle<Transfer>) -> JobRecord {
    let finished = tokio::time::timeout(PATIENCE, handle.finished()).await;
    finished.expect("the job comes to its end").expect("the store has the job")
}
