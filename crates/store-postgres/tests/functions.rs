//! The functions for those who speak SQL, called as they do: by statements, in transactions, from a trigger.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::{Duration, SystemTime};

use tokio_postgres::{Client, NoTls};
use windlass_core::queue::QueueConfig;
use windlass_core::store::{Inspect, Jobs, Queues, Wakeup};
use windlass_core::{JobId, JobRecord, Name, State};
use windlass_store_postgres::{PostgresOptions, PostgresStore, WakeMode};
use windlass_store_testkit::servers::PostgresServer;

/// A store in a schema of its own, and a connection of a caller that knows nothing but SQL.
struct Bench {
    schema: String,
    store: PostgresStore,
    client: Client,
}

impl Bench {
    async fn new() -> Self {
        let schema = format!("sql_{}_{:x}", std::process::id(), fastrand::u32(..));
        let options = PostgresOptions::parse(PostgresServer::shared().url()).unwrap();
        let store =
            PostgresStore::open_with(options.schema(&schema).unwrap().pool(2).unwrap()).await.unwrap();
        Self { client: connect().await, schema, store }
    }

    fn in_schema(&self, sql: &str) -> String {
        sql.replace("windlass.", &format!("{}.", self.schema))
    }

    async fn run(&self, sql: &str) {
        self.client
            .batch_execute(&self.in_schema(sql))
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// The id that `SELECT windlass.enqueue(arguments)` answers.
    async fn enqueue(&self, arguments: &str) -> JobId {
        let sql = self.in_schema(&format!("SELECT windlass.enqueue({arguments})::text"));
        let row = self.client.query_one(&sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        row.get::<_, &str>(0).parse().unwrap()
    }

    /// What the server says against `SELECT windlass.enqueue(arguments)`.
    async fn refusal(&self, arguments: &str) -> String {
        let sql = self.in_schema(&format!("SELECT windlass.enqueue({arguments})::text"));
        let error = self.client.query_one(&sql, &[]).await.expect_err(arguments);
        error.as_db_error().unwrap().message().to_owned()
    }

    async fn job(&self, id: JobId) -> Option<JobRecord> {
        self.store.get([id].into()).await.unwrap().remove(0)
    }

    async fn count(&self, state: State) -> u64 {
        self.store.queues(None, 100).await.unwrap().iter().map(|queue| queue.counts.of(state)).sum()
    }
}

async fn connect() -> Client {
    let (client, connection) = tokio_postgres::connect(PostgresServer::shared().url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_job_has_what_was_said_and_defaults_for_the_rest() {
    let bench = Bench::new().await;
    let plain = bench.job(bench.enqueue("'k'").await).await.unwrap();
    assert_eq!(
        (plain.queue.as_str(), plain.kind.as_str(), &plain.payload[..]),
        ("default", "k", &b"null"[..])
    );
    assert_eq!(
        (plain.state, plain.priority, plain.spec.timeout, plain.expires_at),
        (State::Ready, 0, None, None)
    );

    let id = bench
        .enqueue(
            r#"'mail.send', '{"to":  "ada"}', queue => 'mail', priority => -7, delay => '5 minutes',
               expires_in => '1 hour', timeout => '1500 milliseconds', tags => '{b,a,b,A}'"#,
        )
        .await;
    let job = bench.job(id).await.unwrap();
    assert_eq!((job.queue.as_str(), job.priority, job.state), ("mail", -7, State::Scheduled));
    assert_eq!(&job.payload[..], br#"{"to":  "ada"}"#, "as it was written");
    assert_eq!(job.spec.timeout, Some(Duration::from_millis(1_500)));
    assert_eq!(job.tags.iter().map(windlass_core::Name::as_str).collect::<Vec<_>>(), ["A", "a", "b"]);
    let from = |instant: windlass_core::Timestamp| {
        SystemTime::from(instant).duration_since(SystemTime::from(job.enqueued_at)).unwrap()
    };
    assert_eq!(from(job.due_at), Duration::from_secs(300));
    assert_eq!(from(job.expires_at.unwrap()), Duration::from_secs(3_600));
    assert_eq!((bench.count(State::Ready).await, bench.count(State::Scheduled).await), (1, 1));

    // Nothing said is the default, also where another language sends NULL for it.
    let nothing = bench.enqueue("'k', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL").await;
    let nothing = bench.job(nothing).await.unwrap();
    assert_eq!(
        (nothing.queue.as_str(), &nothing.payload[..], nothing.priority),
        ("default", &b"null"[..], 0)
    );
    assert_eq!(nothing.tags, []);
}

#[tokio::test]
async fn ids_are_of_version_seven_and_sort_by_time() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(bench.enqueue("'k'").await);
        bench.run("SELECT pg_sleep(0.002)").await;
    }
    for id in &ids {
        let text = id.to_string();
        assert_eq!(&text[14..15], "7", "{text}");
        assert!("89ab".contains(&text[19..20]), "{text}");
        let millis = u128::from_str_radix(&text.replace('-', "")[..12], 16).unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        assert!(now.abs_diff(millis) < 600_000, "{text} is of now");
    }
    assert!(ids.is_sorted());
}

#[tokio::test]
async fn a_job_is_there_when_its_transaction_is_committed_and_only_then() {
    let bench = Bench::new().await;
    bench.run("BEGIN").await;
    let id = bench.enqueue("'k'").await;
    assert_eq!(bench.job(id).await, None, "no other session sees it yet");
    bench.run("ROLLBACK").await;
    assert_eq!((bench.job(id).await, bench.count(State::Ready).await), (None, 0));
    bench.run("BEGIN").await;
    let id = bench.enqueue("'k'").await;
    bench.run("COMMIT").await;
    assert_eq!((bench.job(id).await.unwrap().state, bench.count(State::Ready).await), (State::Ready, 1));
}

#[tokio::test]
async fn a_trigger_hands_in_jobs() {
    let bench = Bench::new().await;
    bench
        .run(
            "CREATE TABLE windlass.orders (id int8 PRIMARY KEY, mail text COLLATE \"POSIX\");
             CREATE FUNCTION windlass.on_order() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 PERFORM windlass.enqueue('receipt', json_build_object('order', NEW.id), tags => ARRAY[NEW.mail]);
                 RETURN NEW;
             END $$;
             CREATE TRIGGER on_order AFTER INSERT ON windlass.orders FOR EACH ROW EXECUTE FUNCTION windlass.on_order();
             INSERT INTO windlass.orders VALUES (1, 'ada'), (2, 'bob'), (3, 'cyd')",
        )
        .await;
    assert_eq!(bench.count(State::Ready).await, 3);
    let failed = bench
        .client
        .batch_execute(&bench.in_schema("INSERT INTO windlass.orders VALUES (4, 'no name')"))
        .await;
    assert!(failed.unwrap_err().as_db_error().unwrap().message().contains("name 'no name' cannot be a kind"));
    assert_eq!(bench.count(State::Ready).await, 3, "the row is not there without its job");
}

#[tokio::test]
async fn a_repeat_is_an_answer_and_a_different_job_is_refused() {
    let bench = Bench::new().await;
    const ID: &str = "id => 'c0ffee00-0000-4000-8000-000000000001'";
    let first = bench.enqueue(&format!("'k', '[1]', {ID}")).await;
    assert_eq!(bench.enqueue(&format!("'k', '[1]', priority => 9, {ID}")).await, first);
    assert_eq!((bench.count(State::Ready).await, bench.job(first).await.unwrap().priority), (1, 0));
    for other in ["'k', '[2]'", "'l', '[1]'", "'k', '[1]', 'other'"] {
        let said = bench.refusal(&format!("{other}, {ID}")).await;
        assert!(said.contains("is taken by a different job"), "{said}");
    }

    // Two at once: the second waits for the first and finds its job.
    let (schema, other) = (bench.schema.clone(), connect().await);
    bench.run("BEGIN").await;
    let id = bench.enqueue("'k', id => 'c0ffee00-0000-4000-8000-000000000002'").await;
    let repeat = tokio::spawn(async move {
        let sql = format!("SELECT {schema}.enqueue('k', id => 'c0ffee00-0000-4000-8000-000000000002')::text");
        other.query_one(&sql, &[]).await.unwrap().get::<_, String>(0)
    });
    bench.run("COMMIT").await;
    assert_eq!((repeat.await.unwrap(), bench.count(State::Ready).await), (id.to_string(), 2));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_in_words() {
    let bench = Bench::new().await;
    bench.run("INSERT INTO windlass.queues (name, config, payload_max) VALUES ('small', '{}', 10)").await;
    let (long, many) = ("x".repeat(129), "t,".repeat(16) + "t");
    for (arguments, complaint) in [
        ("''", "name '' cannot be a kind, queue or tag: use 1 to 128 of"),
        ("NULL", "name NULL cannot be a kind"),
        (&format!("'{long}'"), "cannot be a kind"),
        ("E'line\\n'", "cannot be a kind"),
        ("'k', queue => 'two words'", "name 'two words' cannot be a kind"),
        ("'k', queue => 'grün'", "name 'grün' cannot be a kind"),
        ("'k', tags => '{a,\"b,c\"}'", "name 'b,c' cannot be a kind"),
        ("'k', tags => ARRAY['a', NULL]", "name NULL cannot be a kind"),
        (&format!("'k', tags => '{{{many}}}'"), "17 tags: a job carries at most 16"),
        ("'k', priority => 32768", "priority 32768: use -32768 to 32767"),
        ("'k', priority => -32769", "priority -32769: use"),
        ("'k', to_json(repeat('x', 1048575))", "payload has 1048577 bytes, the cap is 1048576"),
        ("'k', '[1,2,3,4,5,6]', 'small'", "payload has 13 bytes, the cap is 10"),
        ("'k', delay => '1s', run_at => now()", "both delay and run_at are given"),
        ("'k', timeout => '-1s'", "timeout is not above zero"),
        ("'k', timeout => '0'", "timeout is not above zero"),
        ("'k', expires_in => '-1s'", "expires_in is negative"),
        ("'k', 'no json'", "invalid input syntax for type json"),
    ] {
        let said = bench.refusal(arguments).await;
        assert!(said.contains(complaint), "{arguments}: {said}");
    }
    assert_eq!(
        bench.store.queues(None, 100).await.unwrap().iter().map(|queue| queue.counts.open()).sum::<u64>(),
        0
    );
    bench.enqueue("'k', to_json(repeat('x', 1048574))").await;
    bench.enqueue("'k', '[1,2,3,4]', 'small'").await;
}

#[tokio::test]
async fn a_full_queue_takes_no_job() {
    let bench = Bench::new().await;
    let config = QueueConfig { capacity: Some(1), ..QueueConfig::default() };
    bench.store.define(&Name::new("small").unwrap(), &config).await.unwrap();
    let id = "c0ffee00-0000-4000-8000-000000000001";
    for _ in 0..2 {
        bench.enqueue(&format!("'k', queue => 'small', id => '{id}'")).await;
    }
    let said = bench.refusal("'k', queue => 'small'").await;
    assert_eq!(said, "queue small is full: 1 jobs wait, and it takes 1; enqueue later");
    bench.enqueue("'k'").await;
    assert_eq!(bench.count(State::Ready).await, 2);
}

#[tokio::test]
async fn spans_and_instants_stay_within_time() {
    let bench = Bench::new().await;
    for arguments in
        ["delay => '-5 minutes'", "run_at => '-infinity'", "run_at => '1066-10-14'", "delay => '0'"]
    {
        let job = bench.job(bench.enqueue(&format!("'k', {arguments}")).await).await.unwrap();
        assert_eq!((job.state, job.due_at), (State::Ready, job.enqueued_at), "{arguments}");
    }
    for arguments in [
        "delay => '178000000 years'",
        "delay => '1000 years'",
        "run_at => 'infinity'",
        "run_at => '294276-01-01'",
        "delay => '1 day', expires_in => '178000000 years', timeout => '178000000 years'",
    ] {
        let job = bench.job(bench.enqueue(&format!("'k', {arguments}")).await).await.unwrap();
        assert_eq!(job.state, State::Scheduled, "{arguments}");
    }
    let page = bench.store.list(&Default::default(), None, 100).await.unwrap();
    assert_eq!(page.jobs.len(), 9);
}

#[tokio::test]
async fn no_table_path_or_setting_of_the_caller_leads_elsewhere() {
    let bench = Bench::new().await;
    bench
        .run(
            "CREATE TEMPORARY TABLE jobs (id text); CREATE TEMPORARY TABLE waiting (id text);
             CREATE TEMPORARY TABLE moved (id text); CREATE TEMPORARY TABLE queues (name text);
             SET search_path = pg_temp, public; SET standard_conforming_strings = on; SET intervalstyle = 'sql_standard';
             SET datestyle = 'German'; SET timezone = 'Pacific/Kiritimati'",
        )
        .await;
    let id = bench.enqueue("'k', delay => '1 minute'").await;
    let job = bench.job(id).await.unwrap();
    let wait = SystemTime::from(job.due_at).duration_since(SystemTime::from(job.enqueued_at)).unwrap();
    assert_eq!(wait, Duration::from_secs(60));
    bench.run("SELECT windlass.wake()").await;
    let path = bench.client.query_one("SHOW search_path", &[]).await.unwrap();
    assert_eq!(path.get::<_, &str>(0), "pg_temp, public", "the caller's own path is as it was");

    // Names that come with collations of their own, even different ones.
    bench
        .run(
            r#"CREATE TABLE windlass.names (kind text COLLATE "POSIX", queue text COLLATE "ucs_basic", tags text[]);
               INSERT INTO windlass.names VALUES ('k', 'q', '{b,a}')"#,
        )
        .await;
    let named = "(SELECT kind FROM windlass.names), queue => (SELECT queue FROM windlass.names),
        tags => (SELECT tags FROM windlass.names), id => 'c0ffee00-0000-4000-8000-000000000003'";
    assert_eq!(bench.enqueue(named).await, bench.enqueue(named).await);
}

#[tokio::test]
async fn wake_rings_the_bells_of_programs() {
    let bench = Bench::new().await;
    let bell = bench.store.bell();
    let limit = Duration::from_secs(20);
    let listening = async {
        while bench.store.wake_mode() != WakeMode::Listening {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(limit, listening).await.expect("it listens");
    let mut heard = bell.listen(windlass_core::bell::Topic::Work);
    bench.run("SELECT windlass.wake()").await;
    tokio::time::timeout(limit, heard.rung()).await.expect("it was heard");
}
