//! Many large payloads at once, on a server that has other things to do: all are stored.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Instant;

use windlass_e2e::jobs::Plain;
use windlass_e2e::server::StoreServer;
use windlass_e2e::setting;
use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

/// Below the cap of a payload, with what JSON adds.
const BYTES: usize = 1_000_000;

async fn all_are_stored(server: &impl StoreServer) {
    let client = windlass::open(server.url()).await.unwrap();
    let count = setting("WINDLASS_LARGE_PAYLOADS", 48);
    let since = Instant::now();
    let calls: Vec<_> = (0..count)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                client.enqueue(Plain { word: "x".repeat(BYTES), millis: 0 }).await.map(|handle| handle.id())
            })
        })
        .collect();
    let mut ids = Vec::new();
    for call in calls {
        ids.push(call.await.unwrap().unwrap());
    }
    let took = since.elapsed();
    assert_eq!(server.stored(), u64::from(count));
    let last = client.job(*ids.last().unwrap()).await.unwrap().unwrap();
    assert!(last.payload.len() > BYTES);
    println!("{count} payloads of {BYTES} bytes handed in at once were stored within {took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_of_a_megabyte_handed_in_at_once_are_all_stored_on_a_busy_postgres() {
    let server = PostgresServer::start(&Settings::default().durable());
    // Others keep it busy.
    let sql = "SELECT sum(number) FROM generate_series(1, 1000000000) number";
    let busy = || {
        let url = server.superuser_url();
        let mut command = tokio::process::Command::new("psql");
        command.args(["-X", "-q", "-d", &url, "-c", sql]).kill_on_drop(true).spawn().unwrap()
    };
    let _others = [busy(), busy()];
    all_are_stored(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_of_a_megabyte_handed_in_at_once_are_all_stored_on_redis() {
    all_are_stored(&RedisServer::start(&RedisSettings::default())).await;
}
