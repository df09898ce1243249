//! The SQL of `docs/operations/postgres.md`, run as it stands from the first block to the last, on a server of its
//! own; between them, what the page says about rights is tried.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use tokio_postgres::NoTls;
use windlass_core::job::ClaimedJob;
use windlass_core::judge::judge;
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Jobs, Leases, Maintenance, NewLease, QueueShare, Settlement,
};
use windlass_core::{LeaseId, Name, NewJob, Options, Outcome};
use windlass_store_postgres::{PostgresStore, migrate};
use windlass_store_testkit::servers::{PostgresServer, Settings};

const PAGE: &str = include_str!("../../../docs/operations/postgres.md");

/// The blocks of the page, in order.
fn blocks() -> impl Iterator<Item = &'static str> {
    PAGE.split("\n```sql\n").skip(1).map(|rest| rest.split_once("\n```").unwrap().0)
}

/// As this role, whatever it may not do.
fn url_as(server: &PostgresServer, role: &str) -> String {
    format!("{}?options=-c%20role%3D{role}", server.superuser_url())
}

/// The life of a job, from its enqueue to its end, and everything else that a worker does.
async fn live(store: &PostgresStore) {
    let queue = Name::new("default").unwrap();
    store.enqueue([NewJob::new("k", "1", Options::new()).unwrap()].into()).await.unwrap();
    let (lease, ttl) = (LeaseId::new(), Duration::from_secs(60));
    store
        .open(&NewLease {
            id: lease,
            worker: "w".to_owned(),
            ttl,
            queues: vec![queue.clone()],
            kinds: Vec::new(),
        })
        .await
        .unwrap();
    let queues = vec![QueueShare { queue, limit: 1 }];
    let request = ClaimRequest {
        lease,
        nonce: windlass_core::Fence::nonce(),
        queues,
        kinds: vec![Name::new("k").unwrap()],
        limit: 1,
        at_once: 1,
        bytes: 1 << 20,
    };
    let ClaimAnswer::Jobs { jobs, .. } = store.claim(request.clone()).await.unwrap() else {
        panic!("the lease is lost")
    };
    let settle = |job: &ClaimedJob| Settlement {
        queue: job.queue.clone(),
        id: job.id,
        fence: job.fence,
        transition: judge(&job.facts, Outcome::Completed { output: None }, 0.5),
    };
    let settlements: Vec<_> = jobs.iter().map(settle).collect();
    assert_eq!(settlements.len(), 1);
    store.settle(settlements.as_slice().into()).await.unwrap();
    store.renew(lease, ttl, 10).await.unwrap();
    store.lost(10).await.unwrap();
    store.sweep(10).await.unwrap();
    store.promote(10).await.unwrap();
    store.tidy(10).await.unwrap();
    store.prune(10).await.unwrap();
    store.close(lease).await.unwrap();
}

/// What a producer may do, and nothing else.
async fn produce(server: &PostgresServer) {
    let (client, connection) = tokio_postgres::connect(&server.superuser_url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("SET ROLE shop_producer").await.unwrap();
    for _ in 0..2 {
        let call = "SELECT windlass.enqueue('k', id => 'c0ffee00-0000-4000-8000-000000000001'); SELECT windlass.wake()";
        client.batch_execute(call).await.unwrap();
    }
    for table in [
        "jobs",
        "waiting",
        "running",
        "ended",
        "attempts",
        "counted",
        "moved",
        "queues",
        "settings",
        "calls",
        "leases",
        "queue_records",
    ] {
        for sql in [format!("SELECT FROM windlass.{table}"), format!("DELETE FROM windlass.{table}")] {
            let refused = client.batch_execute(&sql).await.expect_err(&sql);
            assert_eq!(refused.code().unwrap().code(), "42501", "{sql}: {refused}");
        }
    }
    // Not even with the schema in sight may others.
    client
        .batch_execute("RESET ROLE; CREATE ROLE passer_by; GRANT USAGE ON SCHEMA windlass TO passer_by")
        .await
        .unwrap();
    client.batch_execute("SET ROLE passer_by").await.unwrap();
    for sql in ["SELECT windlass.enqueue('k')", "SELECT windlass.wake()"] {
        let refused = client.batch_execute(sql).await.expect_err(sql);
        assert_eq!(refused.code().unwrap().code(), "42501", "{sql}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_says_what_is_so() {
    let server = PostgresServer::start(&Settings::default());
    let mut blocks = blocks();
    let mut next = |until: &str| {
        let text = blocks.next().unwrap_or_else(|| panic!("the page has a block with {until:?}"));
        assert!(text.contains(until), "the next block of the page has {until:?}: {text}");
        server.psql(text)
    };
    next("CREATE SCHEMA windlass AUTHORIZATION shop_jobs");
    migrate::run(&url_as(&server, "shop_jobs")).await.unwrap();
    let refused = PostgresStore::open(&url_as(&server, "pg_monitor")).await.unwrap_err().to_string();
    assert!(refused.contains("permission denied for schema windlass"), "{refused}");
    next("CREATE ROLE shop_worker");

    let store =
        PostgresStore::open(&format!("{}&migrate=never", url_as(&server, "shop_worker"))).await.unwrap();
    live(&store).await;
    produce(&server).await;

    next("ALTER ROLE shop_worker");
    next("pg_stat_activity");
    assert!(next("n_dead_tup").contains("waiting|"));
    assert!(next("windlass.counts").contains("default|0|0|1|0|1|0|0"));
    next("windlass.enqueue('receipt.send'");
    next("CREATE TRIGGER");
    assert_eq!(server.psql("SELECT count(*) FROM windlass.jobs WHERE kind = 'receipt.send'"), "2");
    drop(store);
    next("DROP SCHEMA windlass");
    assert_eq!(server.psql("SELECT count(*) FROM pg_namespace WHERE nspname = 'windlass'"), "0");
    assert_eq!(blocks.next(), None, "every block was run");
}
