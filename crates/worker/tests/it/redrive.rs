//! Dead jobs that are looked after: sent back by rules, sent on to another queue, and followed when they expired.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::fingerprint::Fingerprint;
use windlass_core::job::{DeadJob, FORWARD_ERROR, FORWARD_OF, FORWARD_REASON, FORWARDED_FROM, OnDead};
use windlass_core::outcome::Reason;
use windlass_core::queue::{JobDefaults, Keep, QueueConfig, Retention};
use windlass_core::size::Caps;
use windlass_core::store::{Begin, ClaimAnswer, ClaimRequest, Filter, NewLease, QueueShare};
use windlass_core::{ClaimedJob, Fence, JobId, JobRecord, LeaseId, Name, State};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, DeadFilter, DeadLetters, DeadRule, Reaper, RedriveSummary, Redriver};

use crate::support::{Act, Stage, end_of, eventually, probe, scene, scene_on, worker};

const MINUTE: Duration = Duration::from_secs(60);

/// A scene whose clock moves by hand.
fn clocked() -> (ManualClock, Client, Stage) {
    let clock = ManualClock::at(Timestamp::from_micros(1_000_000_000));
    let (client, stage) = scene_on(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    (clock, client, stage)
}

fn redriver(client: &Client) -> Redriver {
    Redriver::new(Arc::clone(client.store()))
}

async fn round(client: &Client) -> RedriveSummary {
    redriver(client).run_once().await.unwrap()
}

async fn die(client: &Client, error: &str) -> JobId {
    client.enqueue(probe(Act::Error(error.to_owned()))).await.unwrap().id()
}

async fn job(client: &Client, id: JobId) -> JobRecord {
    client.job(id).await.unwrap().unwrap()
}

async fn in_queue(client: &Client, queue: &str) -> Vec<JobRecord> {
    let filter = Filter { queue: Name::new(queue).ok(), ..Filter::default() };
    client.list(&filter, None, 100).await.unwrap().jobs
}

#[tokio::test]
async fn a_rule_sends_back_what_it_is_about_and_stops() {
    let (clock, client, stage) = clocked();
    let timed_out = die(&client, "timed out after 5s").await;
    let refused = die(&client, "refused").await;
    worker(&client, &stage).drain().await.unwrap();
    let rule = DeadRule::new("default", "outages").unwrap().error("TIMED OUT").after(10 * MINUTE).most(3);
    client.set_dead_rule(&rule).await.unwrap();
    assert_eq!(round(&client).await, RedriveSummary::default(), "it is too early");
    let mut sent_back = 0;
    for _ in 0..6 {
        clock.advance(10 * MINUTE);
        sent_back += round(&client).await.redriven;
        assert_eq!(round(&client).await.redriven, 0, "each death counts once");
        worker(&client, &stage).drain().await.unwrap();
    }
    assert_eq!(sent_back, 3, "the handler always fails");
    let (first, other) = (job(&client, timed_out).await, job(&client, refused).await);
    assert_eq!((first.state, first.fence), (State::Dead, 3 * 4), "three attempts, four times");
    assert_eq!((other.state, other.fence), (State::Dead, 3));
    let redriven = client.redriven(&first).await.unwrap().unwrap();
    assert_eq!((redriven.count, redriven.rule.as_str()), (3, "outages"));
    assert_eq!(client.redriven(&other).await.unwrap(), None);

    // More is permitted by another rule, which looks at all that are dead.
    client.set_dead_rule(&rule.clone().most(4)).await.unwrap();
    assert_eq!(round(&client).await.redriven, 1);
    worker(&client, &stage).drain().await.unwrap();
    assert!(client.remove_dead_rule("default", "outages").await.unwrap());
    assert!(!client.remove_dead_rule("default", "outages").await.unwrap());
    clock.advance(60 * MINUTE);
    assert_eq!(round(&client).await, RedriveSummary::default());
}

#[tokio::test]
async fn rules_look_at_kinds_fingerprints_and_their_queue_only() {
    let (clock, client, stage) = clocked();
    let first = die(&client, "order 1 refused").await;
    let second = die(&client, "other").await;
    let elsewhere = client.enqueue(probe(Act::Error("order 2 refused".into()))).queue("other").await.unwrap();
    worker(&client, &stage).queue("other", 4).drain().await.unwrap();
    clock.advance(60 * MINUTE);
    let rule = |name| DeadRule::new("default", name).unwrap().after(Duration::ZERO);
    client.set_dead_rule(&rule("kind").kind("nothing").unwrap()).await.unwrap();
    let fingerprint = Fingerprint::of("probe", "order 333 refused");
    client.set_dead_rule(&rule("fingerprint").fingerprint(fingerprint)).await.unwrap();
    assert_eq!(round(&client).await.redriven, 1);
    assert_eq!(job(&client, first).await.state, State::Ready);
    assert_eq!(job(&client, second).await.state, State::Dead);
    assert_eq!(job(&client, elsewhere.id()).await.state, State::Dead);
    let names: Vec<_> = client.dead_rules().await.unwrap().into_iter().map(|rule| rule.name).collect();
    assert_eq!(names, [Name::new("fingerprint").unwrap(), Name::new("kind").unwrap()]);
}

#[tokio::test]
async fn many_deaths_are_looked_at_in_steps_and_by_several_rounds_at_once() {
    let (clock, client, stage) = clocked();
    let jobs = (0..1_234).map(|i| probe(Act::Error(format!("{i} failed"))));
    client.enqueue_all(jobs).await.unwrap();
    worker(&client, &stage).drain().await.unwrap();
    clock.advance(60 * MINUTE);
    client.set_dead_rule(&DeadRule::new("default", "all").unwrap().after(Duration::ZERO)).await.unwrap();
    let (one, two) = (redriver(&client), redriver(&client));
    let (mut sent_back, mut rounds) = (0, 0);
    while rounds < 30 && sent_back < 1_234 {
        let (one, two) = tokio::join!(one.run_once(), two.run_once());
        sent_back += [one, two].into_iter().flatten().map(|summary| summary.redriven).sum::<u64>();
        rounds += 1;
    }
    assert_eq!(sent_back, 1_234, "each once");
    assert_eq!(client.queue("default").unwrap().counts().await.unwrap().of(State::Ready), 1_234);
}

#[tokio::test]
async fn a_worker_heeds_the_rules() {
    let (client, stage) = scene();
    die(&client, "failed").await;
    worker(&client, &stage).drain().await.unwrap();
    let rule = DeadRule::new("default", "all").unwrap().after(Duration::ZERO);
    client.set_dead_rule(&rule).await.unwrap();
    let health = worker(&client, &stage).redrive_interval(Duration::from_millis(5)).start().unwrap();
    // It holds back what died within the last half minute; the round itself must come.
    eventually("a round was made", async || {
        health.health().of(windlass_worker::Part::Redriver).last_success.is_some()
    })
    .await;
    health.stop().await;
    assert_eq!(redriver(&client).hold_back(Duration::ZERO).run_once().await.unwrap().redriven, 1);
}

#[tokio::test]
async fn a_dead_job_is_sent_on_in_the_same_write() {
    let (client, stage) = scene();
    let config = QueueConfig {
        retention: Retention { dead: Keep::count(0), ..Retention::default() },
        defaults: JobDefaults { forward_dead: Name::new("dead.letters").ok(), ..JobDefaults::default() },
        ..QueueConfig::default()
    };
    client.queue("moves").unwrap().define(&config).await.unwrap();
    let by_call = client
        .enqueue(probe(Act::Error("order 7 refused".into())))
        .forward_dead("dead.letters")
        .priority(4)
        .tag("eu")
        .meta("tenant", "acme")
        .await
        .unwrap();
    let by_queue = client.enqueue(probe(Act::Fail)).queue("moves").await.unwrap();
    let fine = client.enqueue(probe(Act::Succeed)).forward_dead("dead.letters").await.unwrap();
    worker(&client, &stage).queue("moves", 4).drain().await.unwrap();
    assert_eq!(end_of(&fine).await.state, State::Completed);
    assert_eq!(client.job(by_queue.id()).await.unwrap(), None, "its queue keeps no dead jobs: it has moved");
    let mut sent_on = in_queue(&client, "dead.letters").await;
    sent_on.sort_by_key(|job| job.priority);
    let [moved, copied] = &sent_on[..] else { panic!("two are sent on: {sent_on:?}") };
    assert_eq!(moved.spec.meta[FORWARDED_FROM], "moves");
    let origin = job(&client, by_call.id()).await;
    assert_eq!((origin.state, &copied.payload), (State::Dead, &origin.payload));
    assert_eq!((copied.state, copied.priority, &copied.tags), (State::Ready, 4, &origin.tags));
    let meta = &copied.spec.meta;
    assert_eq!((meta["tenant"].as_str(), meta[FORWARDED_FROM].as_str()), ("acme", "default"));
    assert_eq!(meta[FORWARD_OF], by_call.id().to_string());
    assert_eq!(
        (meta[FORWARD_REASON].as_str(), meta[FORWARD_ERROR].as_str()),
        (Reason::AttemptsExhausted.as_str(), "order 7 refused")
    );
    // There it dies as any other job, and goes no further.
    worker(&client, &stage).queue("dead.letters", 4).drain().await.unwrap();
    assert_eq!(in_queue(&client, "dead.letters").await.len(), 2);
    assert!(client.enqueue(probe(Act::Fail)).forward_dead("no/name").await.is_err());
}

/// Takes one job and begins it, and is gone.
async fn lose(client: &Client) {
    let (store, lease, queue) = (client.store(), LeaseId::new(), Name::new("default").unwrap());
    let (worker, ttl, kinds) = ("lost".to_owned(), MINUTE, vec![Name::new("probe").unwrap()]);
    let queues = vec![queue.clone()];
    store.open(&NewLease { id: lease, worker, ttl, queues, kinds: kinds.clone() }).await.unwrap();
    let request = ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: vec![QueueShare { queue, limit: 1 }],
        kinds,
        limit: 1,
        at_once: 1,
        bytes: 1 << 20,
    };
    let ClaimAnswer::Jobs { jobs, .. } = store.claim(request).await.unwrap() else { panic!("it lives") };
    let begin = |job: &ClaimedJob| Begin { queue: job.queue.clone(), id: job.id, fence: job.fence };
    store.begin(jobs.iter().map(begin).collect()).await.unwrap();
    store.close(lease).await.unwrap();
}

#[tokio::test]
async fn a_job_that_is_lost_for_good_is_sent_on() {
    let (client, _) = scene();
    let handle = client
        .enqueue(probe(Act::Wait))
        .max_stalls(0)
        .forward_dead("dead.letters")
        .on_dead(OnDead::kind("alert").unwrap().queue("ops").unwrap())
        .await
        .unwrap();
    lose(&client).await;
    assert_eq!(Reaper::new(Arc::clone(client.store())).run_once().await.unwrap().jobs, 1);
    let sent_on = in_queue(&client, "dead.letters").await;
    assert_eq!(sent_on.len(), 1);
    assert_eq!(sent_on[0].payload, job(&client, handle.id()).await.payload);
    assert_eq!(sent_on[0].spec.meta[FORWARD_REASON], Reason::Stalled.as_str());
    assert_eq!(in_queue(&client, "ops").await.len(), 1);
}

#[tokio::test]
async fn a_job_that_expires_is_followed_once() {
    let (clock, client, _) = clocked();
    let keep_none = Retention { completed: Keep::count(0), ..Retention::default() };
    let config = QueueConfig { retention: keep_none, ..QueueConfig::default() };
    client.queue("ops").unwrap().define(&config).await.unwrap();
    let late = client
        .enqueue(probe(Act::Succeed))
        .expires_in(MINUTE)
        .on_dead(OnDead::kind("alert").unwrap().queue("ops").unwrap())
        .forward_dead("too.late")
        .await
        .unwrap();
    let untold = client.enqueue(probe(Act::Succeed)).expires_in(MINUTE).await.unwrap();
    clock.advance(MINUTE);
    client.store().promote(9).await.unwrap();
    assert_eq!(round(&client).await.followed, 0, "it has died a moment ago");
    clock.advance(MINUTE);
    assert_eq!(round(&client).await.followed, 2);
    let alerts = in_queue(&client, "ops").await;
    let dead: DeadJob = serde_json::from_slice(&alerts[0].payload).unwrap();
    assert_eq!((dead.id, dead.reason, dead.attempts), (late.id(), Some(Reason::Expired), 0));
    let sent_on = in_queue(&client, "too.late").await;
    assert_eq!(sent_on[0].spec.meta[FORWARD_REASON], Reason::Expired.as_str());
    assert_eq!((alerts.len(), sent_on.len()), (1, 1), "{untold:?} is not followed");

    // A round that has forgotten how far it was, as one that was cut off: what it did is known, though it is gone.
    client.store().delete(alerts.iter().map(|job| job.id).collect()).await.unwrap();
    client.records("windlass.dead").unwrap().remove("place/expiring/default").await.unwrap();
    assert_eq!(round(&client).await.followed, 0);
    assert_eq!(in_queue(&client, "ops").await.len(), 0);
}

#[tokio::test]
async fn an_index_finds_what_pages_find() {
    let (clock, client, stage) = clocked();
    let errors = ["order 1 refused", "timed out", "order 2 refused"];
    let mut ids = Vec::new();
    for error in errors {
        ids.push(die(&client, error).await);
        worker(&client, &stage).drain().await.unwrap();
        clock.advance(MINUTE);
    }
    let refused = Fingerprint::of("probe", "order 3 refused");
    let letters = client.dead(DeadFilter::new().queue("default").unwrap().fingerprint(refused));
    let found = async || {
        let page = letters.indexed(None, 10).await.unwrap()?;
        Some((page.letters.iter().map(|letter| letter.job.id).collect::<Vec<_>>(), page.looked))
    };
    assert_eq!(found().await, None, "it has not been asked for");
    client.index_dead("default").await.unwrap();
    assert_eq!(found().await, None, "no round was made yet");
    round(&client).await;
    assert_eq!(found().await, Some((vec![ids[2], ids[0]], 2)), "the newest death first, and no others");
    // What died since the round, a second death of a job, and one that is sent back.
    ids.push(die(&client, "order 4 refused").await);
    client.store().retry([ids[0]].into()).await.unwrap();
    worker(&client, &stage).drain().await.unwrap();
    assert_eq!(found().await.unwrap().0.len(), 3, "each once, in the index or not");
    clock.advance(MINUTE);
    round(&client).await;
    client.store().retry([ids[2]].into()).await.unwrap();
    let mut both = vec![ids[3], ids[0]];
    let mut seen = found().await.unwrap().0;
    both.sort();
    seen.sort();
    assert_eq!(seen, both);
    // Pages have a cursor of their own.
    let first = letters.indexed(None, 1).await.unwrap().unwrap();
    let next = first.next.clone().expect("there are more");
    assert!(DeadLetters::is_indexed_cursor(&next));
    let mut all: Vec<_> = first.letters.iter().map(|letter| letter.job.id).collect();
    let mut after = Some(next);
    while let Some(cursor) = after {
        let page = letters.indexed(Some(&cursor), 1).await.unwrap().unwrap();
        all.extend(page.letters.iter().map(|letter| letter.job.id));
        after = page.next;
    }
    all.sort();
    assert_eq!(all, both);
    // Entries of what is not dead any more go.
    let entries =
        async || client.records("default").unwrap().list("dead/", None, 100).await.unwrap().records.len();
    assert_eq!(entries().await, 5, "one for each death");
    round(&client).await;
    assert_eq!(entries().await, 4, "the job that waits has none");
    let own = client.records("default").unwrap();
    own.put("dead/line", &serde_json::json!({})).await.unwrap();
    assert!(client.forget_dead_index("default").await.unwrap());
    assert_eq!((entries().await, found().await), (1, None), "what is not an entry stays");
    // Another index begins anew.
    client.index_dead("default").await.unwrap();
    round(&client).await;
    assert_eq!(entries().await, 4, "the own record, and one for each that is dead");
}

#[tokio::test]
async fn a_rule_does_not_come_before_what_follows_an_expired_job() {
    let (clock, client, _) = clocked();
    let late = client
        .enqueue(probe(Act::Succeed))
        .expires_in(MINUTE)
        .on_dead(OnDead::kind("alert").unwrap().queue("ops").unwrap())
        .await
        .unwrap();
    client.set_dead_rule(&DeadRule::new("default", "all").unwrap().after(Duration::ZERO)).await.unwrap();
    clock.advance(MINUTE);
    client.store().promote(9).await.unwrap();
    clock.advance(MINUTE);
    let summary = round(&client).await;
    assert_eq!((summary.followed, summary.redriven), (1, 1));
    assert_eq!(in_queue(&client, "ops").await.len(), 1, "{late:?} is told of");
}

/// A queue that takes no payload, so that nothing can be sent on to it.
async fn closed_letters(client: &Client) {
    let config = QueueConfig { caps: Caps { payload: 1, ..Caps::default() }, ..QueueConfig::default() };
    client.queue("dead.letters").unwrap().define(&config).await.unwrap();
}

#[tokio::test]
async fn a_job_that_cannot_be_sent_on_is_told_of_all_the_same() {
    let (client, stage) = scene();
    closed_letters(&client).await;
    let enqueue = |act| {
        let hook = OnDead::kind("alert").unwrap().queue("ops").unwrap();
        client.enqueue(probe(act)).max_stalls(0).forward_dead("dead.letters").on_dead(hook)
    };
    let lost = enqueue(Act::Wait).await.unwrap();
    lose(&client).await;
    assert_eq!(Reaper::new(Arc::clone(client.store())).run_once().await.unwrap().jobs, 1);
    assert_eq!((job(&client, lost.id()).await.state, in_queue(&client, "ops").await.len()), (State::Dead, 1));
    let drained = enqueue(Act::Fail).await.unwrap();
    worker(&client, &stage).drain().await.unwrap();
    let ops = in_queue(&client, "ops").await;
    assert_eq!((job(&client, drained.id()).await.state, ops.len()), (State::Dead, 2));
    let running = worker(&client, &stage).start().unwrap();
    assert_eq!(end_of(&enqueue(Act::Fail).await.unwrap()).await.state, State::Dead);
    running.stop().await;
    assert_eq!(in_queue(&client, "ops").await.len(), 3);
    assert_eq!(in_queue(&client, "dead.letters").await.len(), 0);
}

#[tokio::test]
async fn many_lost_jobs_are_sent_on_in_parts() {
    let (client, _) = scene();
    for n in 0..40 {
        let job = client.enqueue(probe(Act::Wait)).max_stalls(0);
        let job = if n % 3 == 0 { job } else { job.forward_dead("dead.letters") };
        job.await.unwrap();
        lose(&client).await;
    }
    assert_eq!(Reaper::new(Arc::clone(client.store())).run_once().await.unwrap().jobs, 40);
    assert_eq!(client.queue("default").unwrap().counts().await.unwrap().of(State::Dead), 40);
    assert_eq!(in_queue(&client, "dead.letters").await.len(), 26);
}
