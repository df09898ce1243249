//! Schemas that earlier programs left behind: `tests/fixtures/layout-N.sql`, one per layout since the third, never written
//! anew once a program of it is released. After a new migration, `WINDLASS_FIXTURE=layout-3.sql cargo test -p windlass-store-postgres --test fixture`
//! writes the next one. `layout-N.calls.sql` is what a program of that layout calls, since it may run on beside a later one.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::NoTls;
use windlass_core::follow_ups::FollowUps;
use windlass_core::options::Due;
use windlass_core::queue::{KeyRules, QueueConfig};
use windlass_core::record::{Expect, RecordKey, RecordWrite};
use windlass_core::store::{
    Amended, ClaimAnswer, ClaimRequest, Jobs, Leases, NewLease, QueueShare, Queues, Records, Settlement,
};
use windlass_core::unique::Unique;
use windlass_core::{CallId, Fence, JobId, LeaseId, Name, NewJob, Options, Outcome, State, judge};
use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::fixture;
use windlass_store_testkit::servers::{PostgresServer, Settings};

/// The schema in the files.
const SCHEMA: &str = "windlass";

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

async fn open(server: &PostgresServer) -> Arc<PostgresStore> {
    let options = PostgresOptions::parse(&server.url()).unwrap().schema(SCHEMA).unwrap();
    Arc::new(PostgresStore::open_with(options).await.unwrap())
}

/// Statements that make the schema again, in any database of any later server.
fn dumped(server: &PostgresServer) -> String {
    let url = server.url();
    let arguments = ["--inserts", "--no-owner", "--no-privileges", "--schema", SCHEMA, "--dbname", &url];
    let dump = Command::new("pg_dump").args(arguments).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let text = String::from_utf8(dump.stdout).unwrap();
    // Words for psql, settings of the dumping server, and what changes with every run.
    let is_kept =
        |line: &&str| !line.starts_with(['\\', '-']) && !line.starts_with("SET ") && !line.is_empty();
    text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
}

/// The schemas that are kept.
fn layouts() -> Vec<PathBuf> {
    let files = fs::read_dir(kept()).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| !path.to_string_lossy().ends_with(".calls.sql")).collect()
}

/// Sends the statements of a file.
async fn run(server: &PostgresServer, file: &Path) {
    send(server, &fs::read_to_string(file).unwrap()).await;
}

async fn send(server: &PostgresServer, text: &str) {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    // Functions come before the tables that they name.
    client.batch_execute("SET check_function_bodies = off").await.unwrap();
    client.batch_execute(text).await.unwrap();
    drop(client);
    driver.await.unwrap().unwrap();
}

/// Records of every shape; layouts of before have no place for them.
async fn write_records(store: &PostgresStore) {
    let key = |text| RecordKey::new(text).unwrap();
    let records = vec![
        RecordWrite::put(key("stays ä/1"), &b"\0\xff"[..]),
        RecordWrite::put(key("expires"), "in the year 2100 or later").ttl(Duration::from_secs(4_102_444_800)),
        RecordWrite::put(key("over"), "").ttl(Duration::ZERO),
    ];
    let what = FollowUps { jobs: Vec::new(), records };
    store.write(CallId::new(), &Name::new("other").unwrap(), what).await.unwrap();
}

/// Finds the records, if the layout had a place for them, and writes in any case.
async fn check_records(store: &PostgresStore, are_kept: bool) {
    let queue = Name::new("other").unwrap();
    let page = store.list(&queue, "", None, 10).await.unwrap();
    let found: Vec<_> = page.records.iter().map(|record| (record.key.as_str(), &record.value[..])).collect();
    let expected = [("expires", &b"in the year 2100 or later"[..]), ("stays ä/1", &b"\0\xff"[..])];
    assert_eq!(found, if are_kept { &expected[..] } else { &[] });
    let mut records = vec![RecordWrite::put(RecordKey::new("new").unwrap(), "").expect(Expect::Absent)];
    for record in page.records {
        records.push(RecordWrite::remove(record.key).expect(Expect::Version(record.version)));
    }
    store.write(CallId::new(), &queue, FollowUps { jobs: Vec::new(), records }).await.unwrap();
}

/// A job that is held; layouts of before have none.
fn held() -> NewJob {
    let mut job = NewJob::new("work", "held", Options::new().queue("earlier")).unwrap();
    job.due = Due::Held;
    job.with_id(JobId::from_bytes([7; 16]))
}

/// Finds the job that is held, if the layout had one, and sends it in any case.
async fn check_held(store: &PostgresStore, is_kept: bool) {
    let id = held().id;
    let found = store.states([id].into()).await.unwrap();
    assert_eq!(found, [is_kept.then_some(State::Blocked)]);
    store.enqueue([held()].into()).await.unwrap();
    assert_eq!(store.retry([id].into()).await.unwrap(), [Amended::Done(State::Ready)]);
    assert_eq!(store.delete([id].into()).await.unwrap(), [Amended::Done(State::Ready)]);
}

#[tokio::test]
async fn what_this_program_leaves_is_worked_off() {
    let server = PostgresServer::start(&Settings::default());
    let store = open(&server).await;
    write_records(&store).await;
    store.enqueue([held()].into()).await.unwrap();
    fixture::write(store).await;
    if let Some(name) = std::env::var_os("WINDLASS_FIXTURE") {
        let to = kept().join(name);
        assert!(!to.exists(), "{} is kept as it is", to.display());
        fs::write(to, dumped(&server)).unwrap();
    }
    let store = open(&server).await;
    check_records(&store, true).await;
    check_held(&store, true).await;
    fixture::check(store.clone()).await;
    fixture::drain(store).await;
}

#[tokio::test]
async fn what_earlier_programs_left_is_worked_off() {
    let mut files = 0;
    for layout in layouts() {
        let server = PostgresServer::start(&Settings::default());
        run(&server, &layout).await;
        let store = open(&server).await;
        let text = fs::read_to_string(&layout).unwrap();
        check_records(&store, text.contains("queue_records")).await;
        check_held(&store, text.contains("held boolean")).await;
        fixture::check(store.clone()).await;
        fixture::drain(store).await;
        files += 1;
    }
    assert!(files > 0, "a file of every layout is kept");
}

/// The same text with other names of functions, as those of a program whose functions differ: their digests are turned round.
fn of_another_program(text: &str) -> String {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut turned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|letter| is_name(letter) != is_name(first)).unwrap_or(rest.len());
        let (word, more) = rest.split_at(end);
        rest = more;
        match word.rsplit_once('_') {
            Some((name, digest))
                if digest.len() == 12 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
            {
                turned.extend([name, "_"]);
                turned.extend(digest.chars().rev());
            }
            _ => turned.push_str(word),
        }
    }
    turned
}

/// A later program opens the schema, and the earlier one goes on by the functions that it knows: each works off what the
/// other has stored.
#[tokio::test]
async fn an_earlier_program_runs_on_beside_this_one() {
    let name = |text| Name::new(text).unwrap();
    let (queue, kind) = (name("earlier"), name("work"));
    let layouts = layouts();
    assert!(!layouts.is_empty(), "a file of every layout is kept");
    for layout in layouts {
        let server = PostgresServer::start(&Settings::default());
        let earlier = |file: &Path| of_another_program(&fs::read_to_string(file).unwrap());
        send(&server, &earlier(&layout)).await;
        // It runs, so it has noted lately which functions it uses.
        server.psql(&format!("UPDATE {SCHEMA}.functions SET seen_at = {SCHEMA}.clock_micros()"));
        let store = open(&server).await;
        let options = Options::new().queue("earlier").unique(Unique::key("u"));
        let job = NewJob::new(&kind, "of the later program", options).unwrap();
        store.enqueue([job, held()].into()).await.unwrap();
        let keys = || server.psql(&format!("SELECT count(*) FROM {SCHEMA}.keys")).trim().to_owned();
        assert_eq!(keys(), "1");
        send(&server, &earlier(&layout.with_extension("calls.sql"))).await;
        assert_eq!(keys(), "0", "the earlier program has given up a key that it knows nothing of");

        check_held(&store, true).await;

        let (lease, queues, kinds) = (LeaseId::new(), vec![queue.clone()], vec![kind.clone()]);
        let ttl = std::time::Duration::from_secs(600);
        store.open(&NewLease { id: lease, worker: "later".into(), ttl, queues, kinds }).await.unwrap();
        let request = ClaimRequest {
            lease,
            nonce: Fence::nonce(),
            queues: vec![QueueShare { queue: queue.clone(), limit: 10 }],
            kinds: vec![kind.clone()],
            limit: 10,
            at_once: 10,
            bytes: usize::MAX,
        };
        let ClaimAnswer::Jobs { jobs, .. } = store.claim(request).await.unwrap() else { panic!("it lives") };
        let found: Vec<_> = jobs.iter().map(|job| (&job.payload[..], job.fence.number)).collect();
        assert_eq!(found, [(&b"in a batch"[..], 2), (&b"alone"[..], 1)], "{}", layout.display());
        for job in jobs {
            let transition = judge(&job.facts, Outcome::Completed { output: None }, 0.5);
            let settlement = Settlement { queue: job.queue, id: job.id, fence: job.fence, transition };
            store.settle([settlement].into()).await.unwrap();
        }
        let queues = store.queues(None, 10).await.unwrap();
        let counts = queues.iter().find(|found| found.name == queue).unwrap().counts;
        assert_eq!((counts.of(State::Completed), counts.total()), (3, 3), "{}", layout.display());
        fixture::check(store.clone()).await;
        fixture::drain(store).await;
    }
}

/// Claims of the layout before read what gates are told as single rows, which this program does not write any more.
#[tokio::test]
async fn claims_of_an_earlier_program_hear_what_gates_are_told() {
    let server = PostgresServer::start(&Settings::default());
    let text = of_another_program(&fs::read_to_string(kept().join("layout-7.sql")).unwrap());
    send(&server, &text).await;
    server.psql(&format!("UPDATE {SCHEMA}.functions SET seen_at = {SCHEMA}.clock_micros()"));
    let (_, claim) = text.split_once("FUNCTION windlass.jobs_claim_").unwrap();
    let claim = format!("windlass.jobs_claim_{}", &claim[..12]);
    let store = open(&server).await;
    let queue = Name::new("turns").unwrap();
    let config = QueueConfig { keys: Some(KeyRules::default()), ..QueueConfig::default() };
    store.define(&queue, &config).await.unwrap();
    let job = |key: &str| NewJob::new("work", "", Options::new().queue("turns").key(key)).unwrap();
    store.enqueue([job("a"), job("a"), job("b")].into()).await.unwrap();
    let taken = server.psql(&format!(
        "INSERT INTO windlass.leases (id, opened_at, expires_at, worker, serves)
         VALUES ('00000000-0000-7000-8000-00000000000a', 1, 9223372036854775807, 'earlier', '');
         SELECT count(*)
         FROM {claim}(
             '00000000-0000-7000-8000-00000000000a', 1, '{{turns}}', '{{9}}', '{{work}}', 9, 1000000, 100, '{{0}}', '{{}}', '{{}}',
             '{{}}', 9
         )
         WHERE o_answer = 'job';
         SELECT count(*) FROM windlass.gate_reports WHERE queue = 'turns'"
    ));
    assert!(taken.trim().ends_with("3\n0"), "three jobs, and nothing is left to be told: {taken}");
}

/// What calls tell gates while this program changes the layout is not lost: those that have written, and those that wait.
#[tokio::test]
async fn what_gates_are_told_meanwhile_is_kept() {
    const TELL: &str = "INSERT INTO windlass.gate_notes (queue, key, came, ended) VALUES";
    let server = PostgresServer::start(&Settings::default());
    send(&server, &of_another_program(&fs::read_to_string(kept().join("layout-7.sql")).unwrap())).await;
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("BEGIN; {TELL} ('turns', 'written', true, false)")).await.unwrap();
    let waiting = async |wanted: &str| {
        let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        let started = Instant::now();
        while server.psql(sql).trim() != wanted {
            assert!(started.elapsed() < Duration::from_secs(60), "{wanted} calls do not come to wait");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let url = server.url();
    let opening = tokio::spawn(async move {
        let options = PostgresOptions::parse(&url).unwrap().schema(SCHEMA).unwrap();
        PostgresStore::open_with(options).await
    });
    waiting("1").await;
    let (late, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let late =
        tokio::spawn(
            async move { late.batch_execute(&format!("{TELL} ('turns', 'waited', true, false)")).await },
        );
    waiting("2").await;
    client.batch_execute("COMMIT").await.unwrap();
    late.await.unwrap().expect("a call that waited goes on");
    let _store = opening.await.unwrap().unwrap();
    let told = server.psql("SELECT unnest(keys) FROM windlass.gate_reports WHERE queue = 'turns' ORDER BY 1");
    assert_eq!(told.trim(), "waited\nwritten");
}
