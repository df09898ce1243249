//! Ticks whose calls fail: their answer is lost, they never arrive, or the worker is killed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::Options;
use windlass_core::schedule::{CatchUp, Schedule};
use windlass_worker::{Client, Job, Ticker, Worker};

use super::{HOUR, Report, made, report};
use crate::faulty::{Call, Fault, Faulty};
use crate::support::eventually;

async fn count(client: &Client) -> u64 {
    client.schedule("s").get().await.unwrap().unwrap().record.state.made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_fail_bring_no_slot_twice_and_lose_none() {
    let store = Faulty::new();
    let clients = [0; 2].map(|_| Client::new(Arc::clone(&store) as _));
    let client = &clients[0];
    let start = |client: &Client| {
        let worker = Worker::new(client).handle(report).prune_interval(Duration::from_millis(50));
        worker
            .lease_unchecked(Duration::from_secs(2))
            .reap_interval(Duration::from_millis(50))
            .start()
            .unwrap()
    };
    let mut workers = clients.each_ref().map(start).into_iter().collect::<Vec<_>>();
    let seconds = Schedule::every(Duration::from_secs(1)).catch_up(CatchUp::All(100));
    client.schedule("s").when(seconds).enqueue(Report::default()).await.unwrap();
    for (slots, fault) in [(1, Fault::Unknown), (2, Fault::Vanished), (3, Fault::Unavailable)] {
        store.fail(Call::WriteFenced, fault, 2);
        eventually("its slot comes", async || count(client).await >= slots).await;
    }
    workers.remove(0).abort();
    eventually("another worker goes on", async || count(client).await >= 5).await;
    client.schedule("s").pause().await.unwrap();
    let slots = super::slots_to_the_second(client).await;
    assert_eq!(slots.len(), made(client).await.len(), "none twice");
    let unique: BTreeSet<_> = slots.iter().collect();
    assert_eq!((unique.len() as u64, slots.len() as u64), (count(client).await, count(client).await));
    let span = slots.last().unwrap() - slots.first().unwrap();
    assert_eq!(span + 1, slots.len() as i64, "none missing");
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_queue_that_does_not_answer_keeps_no_other_without_ticks() {
    let store = Faulty::new();
    let client = Client::new(Arc::clone(&store) as _);
    for queue in ["a", "b"] {
        let job = Report::default().with(Options::new().queue(queue));
        let set = client.schedule(queue).every(HOUR).enqueue(job).await.unwrap();
        client.delete(set.tick.unwrap()).await.unwrap();
    }
    let ticker = Ticker::new(&client);
    store.fail(Call::States, Fault::Unavailable, 1);
    let summary = ticker.run_once().await.unwrap();
    assert_eq!((summary.looked, summary.put_back), (1, 1), "the other queue has its tick");
    let summary = ticker.run_once().await.unwrap();
    assert_eq!((summary.looked, summary.put_back), (2, 1), "and so has this one when it answers");
    store.fail(Call::States, Fault::Unavailable, 2);
    assert!(ticker.run_once().await.is_err(), "no queue answers");
}
