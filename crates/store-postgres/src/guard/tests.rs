//! A program that runs notices when the schema becomes too new for it.

use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Inspect, Jobs, Leases, Maintenance, NewLease, QueueShare, Settlement,
    StoreResult,
};
use windlass_core::{Fence, LeaseId, Name, NewJob, Options, Outcome, StoreErrorKind};
use windlass_store_testkit::servers::PostgresServer;

use super::*;
use crate::{PostgresOptions, PostgresStore};

fn new_job() -> NewJob {
    NewJob::new("k", "", Options::new()).unwrap()
}

fn is_out<T: std::fmt::Debug>(answer: StoreResult<T>) {
    let error = answer.unwrap_err();
    assert!(matches!(error, StoreError::SchemaTooNew { found: 99, .. }), "{error:?}");
    assert_eq!(error.kind(), StoreErrorKind::Fatal);
    assert!(error.to_string().contains("upgrade the program"), "{error}");
}

/// What a newer program does to a schema that older ones must not use any more.
fn set_needs(schema: &str, version: i64) {
    PostgresServer::shared()
        .psql(&format!("UPDATE {schema}.settings SET value = {version} WHERE name = 'layout_needs'"));
}

#[tokio::test]
async fn a_running_program_stays_out_of_a_schema_that_asks_for_more() {
    let schema = format!("guard_{}_{:x}", std::process::id(), fastrand::u32(..));
    let options = PostgresOptions::parse(PostgresServer::shared().url()).unwrap().schema(&schema).unwrap();
    let store = PostgresStore::open_with(options).await.unwrap();
    let (queue, kind) = (Name::new("default").unwrap(), Name::new("k").unwrap());
    let ttl = Duration::from_secs(600);
    let lease = NewLease {
        id: LeaseId::new(),
        worker: "w".to_owned(),
        ttl,
        queues: vec![queue.clone()],
        kinds: Vec::new(),
    };
    store.open(&lease).await.unwrap();
    store.enqueue([new_job(), new_job()].into()).await.unwrap();
    let queues = vec![QueueShare { queue, limit: 1 }];
    let request = || ClaimRequest {
        lease: lease.id,
        nonce: Fence::nonce(),
        queues: queues.clone(),
        kinds: vec![kind.clone()],
        limit: 1,
        at_once: 1,
        bytes: 1 << 20,
    };
    let ClaimAnswer::Jobs { jobs, .. } = store.claim(request()).await.unwrap() else { panic!("lost") };
    let settlement = jobs.iter().map(|job| Settlement {
        queue: job.queue.clone(),
        id: job.id,
        fence: job.fence,
        transition: windlass_core::judge::judge(&job.facts, Outcome::Completed { output: None }, 0.5),
    });
    let settlements: Vec<_> = settlement.collect();

    set_needs(&schema, 99);
    store.remote.tools().guard.let_time_pass();
    is_out(store.claim(request()).await);
    is_out(store.settle(settlements.as_slice().into()).await);
    is_out(store.enqueue([new_job()].into()).await);
    is_out(store.renew(lease.id, ttl, 10).await);
    is_out(store.promote(10).await);
    is_out(store.list(&Default::default(), None, 10).await);
    // What it holds goes to others sooner for it.
    store.close(lease.id).await.unwrap();
    let rows = PostgresServer::shared().psql(&format!("SELECT count(*) FROM {schema}.jobs"));
    assert_eq!(rows, "2", "nothing was stored");

    // When the step is taken back, the program works again.
    set_needs(&schema, 1);
    is_out(store.promote(10).await);
    store.remote.tools().guard.let_time_pass();
    assert_eq!(store.settle(settlements.as_slice().into()).await.unwrap().len(), 1);
    assert_eq!(store.lost(10).await.unwrap().len(), 0);
}
