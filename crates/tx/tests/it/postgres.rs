//! Every driver of PostgreSQL, on a real server. The tests begin and end transactions by statements, which all
//! drivers have in common; the drivers' own transactions come at the end.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use windlass_core::bell::Topic;
use windlass_core::outcome::Failure;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::size::Caps;
use windlass_core::store::{Enqueued, Settled};
use windlass_core::unique::Unique;
use windlass_core::{NewJob, Options, Outcome, State, StoreErrorKind};
use windlass_tx::{Tx, complete, enqueue};

use crate::support::schema::url;
use crate::support::{File, Schema, done, job, kind, settlement};

/// A connection of one driver.
trait Driver: Tx + Sized {
    async fn connect_to(url: &str) -> Self;

    async fn connect() -> Self {
        Self::connect_to(url()).await
    }

    async fn try_say(&mut self, sql: &str) -> Result<(), String>;

    async fn say(&mut self, sql: &str) {
        self.try_say(sql).await.unwrap();
    }
}

impl Driver for sqlx::PgConnection {
    async fn connect_to(url: &str) -> Self {
        <Self as sqlx::Connection>::connect(url).await.unwrap()
    }

    async fn try_say(&mut self, sql: &str) -> Result<(), String> {
        let said = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(self).await;
        said.map(drop).map_err(|error| error.to_string())
    }
}

impl Driver for sqlx_08::PgConnection {
    async fn connect_to(url: &str) -> Self {
        <Self as sqlx_08::Connection>::connect(url).await.unwrap()
    }

    async fn try_say(&mut self, sql: &str) -> Result<(), String> {
        sqlx_08::raw_sql(sql).execute(self).await.map(drop).map_err(|error| error.to_string())
    }
}

impl Driver for tokio_postgres::Client {
    async fn connect_to(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn try_say(&mut self, sql: &str) -> Result<(), String> {
        self.batch_execute(sql).await.map_err(|error| error.to_string())
    }
}

macro_rules! on_every_driver {
    ($($test:ident),* $(,)?) => {
        mod on_sqlx {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<sqlx::PgConnection>().await;
            })*
        }

        mod on_sqlx_08 {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<sqlx_08::PgConnection>().await;
            })*
        }

        mod on_tokio_postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<tokio_postgres::Client>().await;
            })*
        }
    };
}

on_every_driver! {
    a_commit_makes_jobs_and_counters_visible_and_rings,
    a_rollback_leaves_nothing,
    a_savepoint_of_the_users_decides_as_well,
    a_unique_job_holds_its_key_from_the_commit_on,
    a_rollback_frees_a_key_for_the_one_who_waits,
    what_a_holder_takes_over_is_there_with_the_commit,
    a_connection_without_a_transaction_takes_effect_at_once,
    a_refused_call_leaves_the_transaction_as_it_was,
    completion_and_effect_are_committed_as_one,
    without_the_commit_neither_is_there_and_the_job_can_be_settled,
    a_stale_attempt_cannot_commit,
    an_output_above_its_cap_is_refused_and_the_transaction_goes_on,
    a_queue_that_keeps_none_loses_the_job_with_the_commit,
    another_database_is_refused_and_the_transaction_goes_on,
    a_call_that_is_dropped_half_way_leaves_what_the_user_rolls_back,
}

async fn a_commit_makes_jobs_and_counters_visible_and_rings<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let jobs: Vec<_> = (0..40).map(|n| job(&"x".repeat(if n % 3 == 0 { 5_000 } else { n }))).collect();
    schema
        .rings(Topic::Work, async {
            connection.say("BEGIN").await;
            connection.say(&schema.pay(7)).await;
            let answers = enqueue(schema.store(), &mut connection, &jobs).await.unwrap();
            assert_eq!(answers, vec![Enqueued::New; 40]);
            assert_eq!(schema.record(&jobs[0]).await, None, "other connections do not see it yet");
            connection.say("COMMIT").await;
        })
        .await;
    for job in &jobs {
        assert_eq!(schema.record(job).await.unwrap().payload, job.payload);
    }
    assert_eq!((schema.counts().await.unwrap().of(State::Ready), schema.ledger()), (40, 7));
}

async fn a_rollback_leaves_nothing<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let job = job("never");
    connection.say("BEGIN").await;
    connection.say(&schema.pay(7)).await;
    enqueue(schema.store(), &mut connection, std::slice::from_ref(&job)).await.unwrap();
    connection.say("ROLLBACK").await;
    assert_eq!((schema.record(&job).await, schema.ledger()), (None, 0));
    assert_eq!(schema.counts().await.map_or(0, |counts| counts.total()), 0);
}

async fn a_savepoint_of_the_users_decides_as_well<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let [kept, dropped] = [job("kept"), job("dropped")];
    connection.say("BEGIN").await;
    enqueue(schema.store(), &mut connection, std::slice::from_ref(&kept)).await.unwrap();
    connection.say("SAVEPOINT mine").await;
    enqueue(schema.store(), &mut connection, std::slice::from_ref(&dropped)).await.unwrap();
    connection.say("ROLLBACK TO SAVEPOINT mine").await;
    connection.say("COMMIT").await;
    assert!(schema.record(&kept).await.is_some());
    assert_eq!(schema.record(&dropped).await, None);
    assert_eq!(schema.counts().await.unwrap().of(State::Ready), 1);
}

/// A job with a key that another one replaces.
fn unique(payload: &str) -> NewJob {
    NewJob::new("k", payload.to_owned(), Options::new().unique(Unique::key("u").replace())).unwrap()
}

/// Enqueues outside while the transaction has the key, and answers what it is told when that has ended so.
async fn meets<D: Driver>(schema: &Schema, connection: &mut D, job: &NewJob, end: &str) -> Enqueued {
    let (store, jobs) = (schema.store.clone(), [job.clone()].into());
    let outside = tokio::spawn(async move { store.enqueue(jobs).await.unwrap()[0] });
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
        schema.name
    );
    while schema.psql(&waits).trim() == "0" {
        assert!(!outside.is_finished(), "it does not wait");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    connection.say(end).await;
    outside.await.unwrap()
}

async fn a_unique_job_holds_its_key_from_the_commit_on<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let jobs = [job("plain"), unique("first"), unique("second")];
    connection.say("BEGIN").await;
    let answers = enqueue(schema.store(), &mut connection, &jobs).await.unwrap();
    assert_eq!(answers, [Enqueued::New, Enqueued::New, Enqueued::Replaced(jobs[1].id)]);
    let keeping = NewJob::new("k", "", Options::new().unique(Unique::key("u"))).unwrap();
    let met = Enqueued::Duplicate { id: jobs[1].id, state: Some(State::Ready) };
    assert_eq!(meets(&schema, &mut connection, &keeping, "COMMIT").await, met);
    assert_eq!(&schema.record(&jobs[1]).await.unwrap().payload[..], b"second");
    assert_eq!(schema.counts().await.unwrap().of(State::Ready), 2);
}

async fn a_rollback_frees_a_key_for_the_one_who_waits<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let [first, second] = [unique("first"), unique("second")];
    connection.say("BEGIN").await;
    enqueue(schema.store(), &mut connection, std::slice::from_ref(&first)).await.unwrap();
    assert_eq!(meets(&schema, &mut connection, &second, "ROLLBACK").await, Enqueued::New);
    assert_eq!(schema.record(&first).await, None);
    assert_eq!(schema.counts().await.unwrap().total(), 1);
}

async fn what_a_holder_takes_over_is_there_with_the_commit<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let holder = unique("before");
    schema.store.enqueue([holder.clone()].into()).await.unwrap();
    for (payload, end, then) in [("never", "ROLLBACK", "before"), ("after", "COMMIT", "after")] {
        connection.say("BEGIN").await;
        let newer = unique(payload);
        let answers = enqueue(schema.store(), &mut connection, std::slice::from_ref(&newer)).await.unwrap();
        assert_eq!(answers, [Enqueued::Replaced(holder.id)]);
        connection.say(end).await;
        assert_eq!(&schema.record(&holder).await.unwrap().payload[..], then.as_bytes());
    }
    assert_eq!(&schema.claim().await.payload[..], b"after");
}

async fn a_connection_without_a_transaction_takes_effect_at_once<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let jobs = [job("one"), job("two")];
    enqueue(schema.store(), &mut connection, &jobs).await.unwrap();
    assert_eq!(schema.counts().await.unwrap().of(State::Ready), 2);
    let again = enqueue(schema.store(), &mut connection, &jobs).await.unwrap();
    assert_eq!(again, [Enqueued::Existing(State::Ready); 2]);
    assert_eq!(schema.counts().await.unwrap().of(State::Ready), 2);
}

async fn a_refused_call_leaves_the_transaction_as_it_was<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let caps = Caps { payload: 100, ..Caps::default() };
    schema.define(QueueConfig { caps, ..QueueConfig::default() }).await;
    connection.say("BEGIN").await;
    let first = job("first");
    enqueue(schema.store(), &mut connection, std::slice::from_ref(&first)).await.unwrap();

    let mut many: Vec<_> = (0..40).map(|n| job(&n.to_string())).collect();
    many[20] = job(&"x".repeat(101));
    let (refusal, text) = kind(enqueue(schema.store(), &mut connection, &many).await);
    assert_eq!(refusal, StoreErrorKind::Refused, "{text}");
    assert!(text.contains("payload has 101 bytes, the cap is 100"), "{text}");

    let other = job("another payload").with_id(first.id);
    let (refusal, text) = kind(enqueue(schema.store(), &mut connection, &[job("fine"), other]).await);
    assert!(refusal == StoreErrorKind::Refused && text.contains("is taken by a different job"), "{text}");

    connection.say("COMMIT").await;
    assert!(schema.record(&first).await.is_some());
    assert_eq!(schema.counts().await.unwrap().of(State::Ready), 1);
}

async fn completion_and_effect_are_committed_as_one<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let claimed = schema.claimed().await;
    schema
        .rings(Topic::Finish, async {
            connection.say("BEGIN").await;
            connection.say(&schema.pay(7)).await;
            let settlement = done(&claimed, Some("\"paid\""));
            let settled = complete(schema.store(), &mut connection, &settlement).await.unwrap();
            assert_eq!(settled, Settled::Applied(State::Completed));
            connection.say("COMMIT").await;
        })
        .await;
    let record = schema.store.get([claimed.id].into()).await.unwrap().pop().unwrap().unwrap();
    assert_eq!((record.state, record.output.as_deref()), (State::Completed, Some(&b"\"paid\""[..])));
    let counts = schema.counts().await.unwrap();
    assert_eq!((counts.of(State::Running), counts.of(State::Completed), schema.ledger()), (0, 1, 7));
    assert_eq!(schema.settle(&done(&claimed, None)).await, Settled::Fenced);
}

async fn without_the_commit_neither_is_there_and_the_job_can_be_settled<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let claimed = schema.claimed().await;
    connection.say("BEGIN").await;
    connection.say(&schema.pay(7)).await;
    complete(schema.store(), &mut connection, &done(&claimed, None)).await.unwrap();
    // The connection goes away in the middle of its transaction, as with a worker that is killed.
    drop(connection);
    let again = settlement(&claimed, Outcome::Retry { failure: Failure::error("not committed") });
    assert!(matches!(schema.settle(&again).await, Settled::Applied(_)));
    assert_eq!(schema.ledger(), 0);
}

async fn a_stale_attempt_cannot_commit<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let stale = schema.claimed().await;
    schema.settle(&settlement(&stale, Outcome::Returned)).await;
    let fresh = schema.claim().await;
    assert_eq!(fresh.id, stale.id);

    connection.say("BEGIN").await;
    connection.say(&schema.pay(7)).await;
    let settled = complete(schema.store(), &mut connection, &done(&stale, None)).await.unwrap();
    assert_eq!(settled, Settled::Fenced);
    // Not even by someone who goes on as if nothing had happened: PostgreSQL takes the commit for a rollback.
    connection.try_say(&schema.pay(8)).await.expect_err("the transaction is aborted");
    connection.say("COMMIT").await;
    assert_eq!(schema.ledger(), 0);

    let settled = complete(schema.store(), &mut connection, &done(&stale, None)).await.unwrap();
    assert_eq!(settled, Settled::Fenced, "also without a transaction");
    connection.say("BEGIN").await;
    connection.say(&schema.pay(9)).await;
    complete(schema.store(), &mut connection, &done(&fresh, None)).await.unwrap();
    connection.say("COMMIT").await;
    assert_eq!(schema.ledger(), 9, "the connection is as good as before");
}

async fn an_output_above_its_cap_is_refused_and_the_transaction_goes_on<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let caps = Caps { output: 3, ..Caps::default() };
    schema.define(QueueConfig { caps, ..QueueConfig::default() }).await;
    let claimed = schema.claimed().await;
    connection.say("BEGIN").await;
    let refused = complete(schema.store(), &mut connection, &done(&claimed, Some("1234"))).await.unwrap();
    assert!(matches!(refused, Settled::Refused(_)), "{refused:?}");
    let settled = complete(schema.store(), &mut connection, &done(&claimed, Some("123"))).await.unwrap();
    assert_eq!(settled, Settled::Applied(State::Completed));
    connection.say("COMMIT").await;
    assert_eq!(schema.counts().await.unwrap().of(State::Completed), 1);
}

async fn a_queue_that_keeps_none_loses_the_job_with_the_commit<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let retention = Retention { completed: Keep::NONE, ..Retention::default() };
    schema.define(QueueConfig { retention, ..QueueConfig::default() }).await;
    let claimed = schema.claimed().await;
    connection.say("BEGIN").await;
    complete(schema.store(), &mut connection, &done(&claimed, None)).await.unwrap();
    connection.say("COMMIT").await;
    assert_eq!(schema.store.get([claimed.id].into()).await.unwrap(), [None]);
    assert_eq!(schema.counts().await.unwrap().total(), 0);
}

async fn another_database_is_refused_and_the_transaction_goes_on<D: Driver>() {
    let schema = Schema::new().await;
    let elsewhere = schema.new_database();
    let mut connection = D::connect_to(&elsewhere).await;
    // First there is no store, then there is another one in the same schema.
    for _ in 0..2 {
        connection.say("BEGIN").await;
        let (refusal, text) = kind(enqueue(schema.store(), &mut connection, &[job("j")]).await);
        assert_eq!(refusal, StoreErrorKind::Refused, "{text}");
        assert!(text.contains("begin it on a connection to that database"), "{text}");
        connection.say("SELECT 1").await;
        connection.say("COMMIT").await;
        Schema::open(&elsewhere, &schema.name).await;
    }

    let file = File::new().await;
    let (refusal, text) = kind(enqueue(file.store(), &mut connection, &[job("j")]).await);
    assert_eq!(refusal, StoreErrorKind::Refused);
    assert!(text.starts_with("the transaction is of PostgreSQL and the jobs are in SQLite"), "{text}");
    let (_, text) = kind(enqueue(schema.store(), &mut file.rusqlite(), &[job("j")]).await);
    assert!(text.starts_with("the transaction is of SQLite and the jobs are in PostgreSQL"), "{text}");
}

async fn a_call_that_is_dropped_half_way_leaves_what_the_user_rolls_back<D: Driver>() {
    let (schema, mut connection) = (Schema::new().await, D::connect().await);
    let jobs: Vec<_> = (0..8).map(|n| job(&n.to_string())).collect();
    let mut polls = 1;
    loop {
        connection.say("BEGIN").await;
        let is_done = {
            let mut call = pin!(enqueue(schema.store(), &mut connection, &jobs));
            let mut is_done = false;
            for _ in 0..polls {
                is_done |=
                    matches!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_));
                if is_done {
                    break;
                }
                // Lets the driver get ahead.
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
            is_done
        };
        connection.say("ROLLBACK").await;
        assert_eq!(schema.record(&jobs[0]).await, None, "after {polls} polls");
        if is_done {
            return;
        }
        polls += 1;
    }
}

#[tokio::test]
async fn the_drivers_own_transactions() {
    let schema = Schema::new().await;
    let pool = sqlx::PgPool::connect(url()).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    enqueue(schema.store(), &mut tx, &[job("sqlx")]).await.unwrap();
    tx.commit().await.unwrap();
    let mut pooled = pool.acquire().await.unwrap();
    enqueue(schema.store(), &mut pooled, &[job("sqlx, pooled")]).await.unwrap();

    let pool = sqlx_08::PgPool::connect(url()).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    enqueue(schema.store(), &mut tx, &[job("sqlx 0.8")]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    enqueue(schema.store(), &mut tx, &[job("sqlx 0.8, dropped")]).await.unwrap();
    drop(tx);

    let mut client = tokio_postgres::Client::connect().await;
    let mut tx = client.transaction().await.unwrap();
    enqueue(schema.store(), &mut tx, &[job("tokio-postgres")]).await.unwrap();
    let mut nested = tx.transaction().await.unwrap();
    enqueue(schema.store(), &mut nested, &[job("tokio-postgres, rolled back")]).await.unwrap();
    nested.rollback().await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(schema.counts().await.unwrap().of(State::Ready), 4);
}

#[tokio::test]
async fn the_calls_can_be_sent_to_other_threads() {
    let schema = Schema::new().await;
    let (store, claimed) = (std::sync::Arc::clone(&schema.store), schema.claimed().await);
    let sent = tokio::spawn(async move {
        let mut sqlx = <sqlx::PgConnection as Driver>::connect().await;
        enqueue(&*store, &mut sqlx, &[job("sqlx")]).await.unwrap();
        let mut sqlx_08 = <sqlx_08::PgConnection as Driver>::connect().await;
        enqueue(&*store, &mut sqlx_08, &[job("sqlx 0.8")]).await.unwrap();
        let mut client = tokio_postgres::Client::connect().await;
        let mut tx = client.transaction().await.unwrap();
        complete(&*store, &mut tx, &done(&claimed, None)).await.unwrap();
        tx.commit().await.unwrap();
    });
    sent.await.unwrap();
    assert_eq!(schema.counts().await.unwrap().of(State::Completed), 1);
}
