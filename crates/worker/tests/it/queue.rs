//! What a queue answers about itself, without a look at the store.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::State;
use windlass_core::clock::{Clock, ManualClock};
use windlass_core::queue::{Keep, QueueConfig, Removed};
use windlass_store_memory::MemoryStore;
use windlass_worker::Client;

use crate::support::{Act, probe, scene};

fn clocked() -> (Client, ManualClock) {
    let clock = ManualClock::default();
    (Client::new(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())))), clock)
}

#[tokio::test]
async fn a_queue_is_found_by_its_name_among_its_neighbours() {
    let (client, _) = scene();
    for queue in ["mail", "mail-", "mail.high", "mai", "mb", "-"] {
        client.enqueue(probe(Act::Succeed)).queue(queue).await.unwrap();
    }
    client.enqueue(probe(Act::Succeed)).queue("mail").await.unwrap();
    for (queue, ready) in [("mail", 2), ("mail-", 1), ("mb", 1), ("-", 1), ("m", 0), ("mailz", 0)] {
        let queue = client.queue(queue).unwrap();
        assert_eq!(queue.counts().await.unwrap().of(State::Ready), ready, "{queue:?}");
        assert_eq!(queue.record().await.unwrap().is_some(), ready > 0, "{queue:?}");
    }
    let error = client.queue("two words").unwrap_err();
    assert!(error.to_string().starts_with("bad queue: name \"two words\""), "{error}");
}

#[tokio::test]
async fn a_definition_is_read_back_and_a_queue_without_one_has_the_default() {
    let (client, _) = scene();
    let mail = client.queue("mail").unwrap();
    assert_eq!(mail.definition().await.unwrap(), QueueConfig::default());
    let mut config = QueueConfig::default();
    config.retention.dead = Keep::count(7);
    mail.define(&config).await.unwrap();
    assert_eq!(mail.definition().await.unwrap(), config);
    assert_eq!(client.queue("other").unwrap().definition().await.unwrap(), QueueConfig::default());
}

#[tokio::test]
async fn a_queue_is_removed_when_it_holds_no_job() {
    let (client, _) = scene();
    let mail = client.queue("mail").unwrap();
    mail.define(&QueueConfig::unreadable()).await.unwrap();
    let job = client.enqueue(probe(Act::Succeed)).queue("mail").await.unwrap();
    let Removed::NotEmpty(counts) = mail.remove().await.unwrap() else { panic!("it holds a job") };
    assert_eq!((counts.of(State::Ready), counts.total()), (1, 1));
    assert_eq!(mail.definition().await.unwrap(), QueueConfig::unreadable());
    client.store().delete([job.id()].into()).await.unwrap();
    assert_eq!(mail.remove().await.unwrap(), Removed::Done);
    assert_eq!(mail.definition().await.unwrap(), QueueConfig::default());
    assert_eq!(mail.remove().await.unwrap(), Removed::Missing);
}

#[tokio::test]
async fn jobs_are_listed_by_state_page_by_page() {
    let (client, _) = scene();
    for _ in 0..5 {
        client.enqueue(probe(Act::Succeed)).queue("mail").await.unwrap();
    }
    client.enqueue(probe(Act::Succeed)).queue("mail").delay(Duration::from_secs(60)).await.unwrap();
    client.enqueue(probe(Act::Succeed)).queue("other").await.unwrap();
    let mail = client.queue("mail").unwrap();
    let (mut seen, mut next) = (Vec::new(), None);
    loop {
        let page = mail.list(State::Ready, next.as_ref(), 2).await.unwrap();
        seen.extend(page.jobs.iter().map(|job| job.id));
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    seen.dedup();
    assert_eq!(seen.len(), 5);
    assert_eq!(mail.list(None, None, 100).await.unwrap().jobs.len(), 6, "of every state");
}

#[tokio::test]
async fn the_backlog_names_the_oldest_and_what_is_overdue() {
    let (client, clock) = clocked();
    let mail = client.queue("mail").unwrap();
    let now = || clock.now();
    assert_eq!(mail.backlog(now()).await.unwrap().oldest, None);
    let due = now().plus(Duration::from_secs(60));
    client.enqueue(probe(Act::Succeed)).queue("mail").delay(Duration::from_secs(60)).await.unwrap();
    client.enqueue(probe(Act::Succeed)).queue("mail").delay(Duration::from_secs(600)).await.unwrap();
    let backlog = mail.backlog(now()).await.unwrap();
    assert_eq!((backlog.overdue, backlog.oldest), (0, None), "nothing could have started");
    clock.advance(Duration::from_secs(61));
    client.enqueue(probe(Act::Succeed)).queue("mail").await.unwrap();
    let backlog = mail.backlog(now()).await.unwrap();
    assert_eq!((backlog.overdue, backlog.oldest), (1, Some(due)));
    assert!(!backlog.has_more_ready && !backlog.has_more_scheduled);
}

#[tokio::test]
async fn a_backlog_that_is_too_long_to_look_at_says_so() {
    let (client, clock) = clocked();
    let mail = client.queue("mail").unwrap();
    let now = || clock.now();
    let jobs = |count| (0..count).map(|_| probe(Act::Succeed));
    let first = now();
    client.enqueue_all(jobs(1_000)).queue("mail").await.unwrap();
    let backlog = mail.backlog(now()).await.unwrap();
    assert_eq!((backlog.oldest, backlog.has_more_ready), (Some(first), false));
    clock.advance(Duration::from_secs(1));
    client.enqueue_all(jobs(1_000)).queue("mail").await.unwrap();
    let backlog = mail.backlog(now()).await.unwrap();
    assert_eq!((backlog.oldest, backlog.has_more_ready), (Some(now()), true), "the newest ones only");
}
