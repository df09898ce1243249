//! Maintenance visits the queues that have something to do: what it costs, and that nothing is forgotten.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "harness/agenda.rs"]
mod scene;

use std::time::Duration;

use scene::{Scene, job, name};
use windlass_core::Options;
use windlass_core::queue::{Keep, QueueConfig, Removed, Retention};
use windlass_core::store::{Inspect, Jobs, Leases, Maintenance, Promotion, Queues};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// Longer than a queue waits for a visit that nothing asks for.
const LONG: Duration = Duration::from_secs(2 * 3_600);

fn promoted(promoted: u32) -> Promotion {
    Promotion { promoted, expired: 0 }
}

fn later(queue: &str, delay: Duration) -> windlass_core::NewJob {
    job(queue, Options::new().delay(delay))
}

#[tokio::test]
async fn rounds_cost_the_same_however_many_queues_are_idle() {
    let scene = Scene::new().await;
    scene.register(2_000, "idle");
    let store = scene.open().await;
    scene.round(&store).await;
    let idle = scene.scripts(async || scene.round(&store).await).await;
    assert_eq!(
        idle, 5,
        "promote, prune and lost read what there is to do; so does sweep, and which leases ran out"
    );
    let first = scene.open().await;
    let begun = scene.scripts(async || scene.round(&first).await).await;
    assert_eq!(begun, 5 + 8, "and the first round of a process enters all names, 250 at a time");
}

#[tokio::test]
async fn jobs_that_are_ready_are_nothing_for_maintenance() {
    let scene = Scene::new().await;
    let store = scene.open().await;
    store.enqueue([job("q", Options::new()), job("q", Options::new().priority(3))].into()).await.unwrap();
    assert_eq!(scene.members("noted:promote"), [""; 0]);
    scene.round(&store).await;
    assert_eq!(scene.scripts(async || scene.round(&store).await).await, 5);
}

#[tokio::test]
async fn what_another_process_delays_is_promoted_in_time_and_visited_seldom_until_then() {
    let scene = Scene::new().await;
    let (client, first, second) = (scene.open().await, scene.open().await, scene.open().await);
    client.enqueue([later("q", 10 * MINUTE)].into()).await.unwrap();
    assert_eq!(scene.members("noted:promote"), ["q"]);
    let idle = scene.scripts(async || assert_eq!(first.promote(9).await.unwrap(), promoted(0))).await;
    assert!(idle > 2, "it is visited while the client may write more");
    scene.clock.advance(MINUTE);
    first.promote(9).await.unwrap();
    assert_eq!(scene.members("noted:promote"), [""; 0], "the client has been quiet");
    assert_eq!(scene.members("agenda:promote"), ["q"]);
    assert_eq!(scene.scripts(async || assert_eq!(first.promote(9).await.unwrap(), promoted(0))).await, 1);
    // That holder is gone, and another goes on.
    drop(first);
    scene.clock.advance(9 * MINUTE);
    assert_eq!(second.promote(9).await.unwrap(), promoted(1));
}

#[tokio::test]
async fn a_client_that_writes_on_is_heard_of_all_the_time() {
    let scene = Scene::new().await;
    let (client, holder) = (scene.open().await, scene.open().await);
    for _ in 0..20 {
        client.enqueue([later("q", Duration::from_secs(7))].into()).await.unwrap();
        scene.clock.advance(Duration::from_secs(7));
        assert_eq!(holder.promote(9).await.unwrap(), promoted(1));
    }
}

#[tokio::test]
async fn expiry_and_retries_are_noted_too() {
    let scene = Scene::new().await;
    let (client, holder) = (scene.open().await, scene.open().await);
    client.enqueue([job("q", Options::new().expires_in(MINUTE))].into()).await.unwrap();
    holder.promote(9).await.unwrap();
    scene.clock.advance(2 * MINUTE);
    assert_eq!(holder.promote(9).await.unwrap(), Promotion { promoted: 0, expired: 1 });
    assert_eq!(scene.members("noted:prune"), ["q"], "an end that is kept for a while");
    let lease = scene.lease(&client, &["r"]).await;
    client.enqueue([job("r", Options::new())].into()).await.unwrap();
    scene.fail(&client, lease, "r").await;
    assert_eq!(scene.members("noted:promote"), ["r"]);
    scene.clock.advance(HOUR);
    assert_eq!(holder.promote(9).await.unwrap(), promoted(1), "it comes to its next attempt");
}

#[tokio::test]
async fn what_was_lost_is_made_good() {
    let scene = Scene::new().await;
    let (client, holder) = (scene.open().await, scene.open().await);
    let lose = |keys: &[&str]| {
        for key in keys {
            scene.server.command(&["DEL", &scene.key(key)]);
        }
        scene.clock.advance(2 * MINUTE);
    };
    client.enqueue([later("q", MINUTE)].into()).await.unwrap();
    lose(&["noted:promote"]);
    assert_eq!(holder.promote(9).await.unwrap(), promoted(0), "it begins to look");
    scene.clock.advance(Duration::from_secs(1));
    assert_eq!(
        holder.promote(9).await.unwrap(),
        promoted(1),
        "a holder that is new looks at everything soon"
    );

    client.enqueue([later("q", MINUTE)].into()).await.unwrap();
    lose(&["noted:promote", "agenda:promote"]);
    assert_eq!(holder.promote(9).await.unwrap(), promoted(0), "it finds no agenda, and fills it");
    scene.clock.advance(Duration::from_secs(1));
    assert_eq!(holder.promote(9).await.unwrap(), promoted(1));

    client.enqueue([later("q", MINUTE)].into()).await.unwrap();
    lose(&["noted:promote"]);
    scene.until_promoted(&holder).await;
}

#[tokio::test]
async fn a_note_that_fails_fails_no_call_and_goes_with_a_later_one() {
    let scene = Scene::new().await;
    let client = scene.open().await;
    scene.server.command(&["SET", &scene.key("noted:promote"), "in the way"]);
    client.enqueue([later("q", MINUTE)].into()).await.unwrap();
    scene.server.command(&["DEL", &scene.key("noted:promote")]);
    client.enqueue([later("r", MINUTE)].into()).await.unwrap();
    assert_eq!(scene.members("noted:promote"), [""; 0], "calls are not held up one after the other");
    scene.clock.advance(Duration::from_secs(5));
    let lease = scene.lease(&client, &["s"]).await;
    client.renew(lease, MINUTE, 9).await.unwrap();
    assert_eq!(scene.members("noted:promote"), ["q", "r"]);
}

#[tokio::test]
async fn what_is_too_old_goes_in_time_and_is_not_looked_at_before() {
    let scene = Scene::new().await;
    let (client, holder) = (scene.open().await, scene.open().await);
    let retention = Retention { cancelled: Keep::age(10 * MINUTE), ..Retention::default() };
    let config = QueueConfig { retention, ..QueueConfig::default() };
    client.define(&name("q"), &config).await.unwrap();
    let job = job("q", Options::new());
    client.enqueue([job.clone()].into()).await.unwrap();
    client.cancel([job.id].into()).await.unwrap();
    assert_eq!(holder.prune(9).await.unwrap(), 0);
    scene.clock.advance(MINUTE);
    assert_eq!(holder.prune(9).await.unwrap(), 0);
    assert_eq!(scene.members("noted:prune"), [""; 0]);
    assert_eq!(scene.scripts(async || assert_eq!(holder.prune(9).await.unwrap(), 0)).await, 1);
    scene.clock.advance(9 * MINUTE);
    assert_eq!(holder.prune(9).await.unwrap(), 0, "it is as old as it may be");
    scene.clock.advance(Duration::from_micros(1));
    assert_eq!(holder.prune(9).await.unwrap(), 1);
    scene.clock.advance(LONG);
    assert_eq!(holder.prune(9).await.unwrap(), 0);
    assert_eq!(scene.members("agenda:prune"), [""; 0], "nothing that has ended is there");
}

#[tokio::test]
async fn a_round_that_ended_by_its_limit_goes_on_where_it_was() {
    let scene = Scene::new().await;
    let (client, holder) = (scene.open().await, scene.open().await);
    for queue in ["q", "r", "s"] {
        let jobs: Vec<_> = (0..4).map(|_| later(queue, MINUTE)).collect();
        client.enqueue(jobs.into()).await.unwrap();
    }
    holder.promote(9).await.unwrap();
    scene.clock.advance(2 * MINUTE);
    let mut rounds = Vec::new();
    while rounds.last() != Some(&0) {
        rounds.push(holder.promote(5).await.unwrap().promoted);
    }
    assert_eq!(rounds, [5, 5, 2, 0]);
}

/// More queues than one script reads or writes: all noted, then all due.
#[tokio::test]
async fn many_queues_are_visited_in_one_round() {
    let scene = Scene::new().await;
    let (client, holder) = (scene.open().await, scene.open().await);
    for place in 0..600 {
        client.enqueue([later(&format!("q{place}"), 10 * MINUTE)].into()).await.unwrap();
    }
    for _ in 0..2 {
        assert_eq!(holder.promote(999).await.unwrap(), promoted(0));
        scene.clock.advance(2 * MINUTE);
    }
    assert_eq!((scene.members("noted:promote").len(), scene.members("agenda:promote").len()), (0, 600));
    scene.clock.advance(10 * MINUTE);
    assert_eq!(holder.promote(999).await.unwrap(), promoted(600));
}

#[tokio::test]
async fn a_sick_queue_stays_due_and_holds_up_no_other() {
    let scene = Scene::new().await;
    let (client, holder) = (scene.open().await, scene.open().await);
    for queue in ["bad", "good"] {
        client.enqueue([later(queue, MINUTE)].into()).await.unwrap();
    }
    holder.promote(9).await.unwrap();
    let (key, saved) = (scene.queue_key("bad", "scheduled"), scene.queue_key("bad", "saved"));
    scene.server.command(&["RENAME", &key, &saved]);
    scene.server.command(&["SET", &key, "in the way"]);
    scene.clock.advance(2 * MINUTE);
    assert_eq!(holder.promote(9).await.unwrap(), promoted(1));
    assert_eq!(scene.members("noted:promote"), ["bad"]);
    assert_eq!(
        scene.open().await.promote(9).await.unwrap(),
        promoted(0),
        "a round does not fail with one queue of several"
    );
    scene.server.command(&["RENAME", &saved, &key]);
    // Another process does not know that it failed.
    assert_eq!(scene.open().await.promote(9).await.unwrap(), promoted(1));
}

#[tokio::test]
async fn a_removed_queue_leaves_the_agendas_and_its_notes_run_out() {
    let scene = Scene::new().await;
    let (client, holder) = (scene.open().await, scene.open().await);
    client.define(&name("q"), &QueueConfig::default()).await.unwrap();
    let job = later("q", MINUTE);
    client.enqueue([job.clone()].into()).await.unwrap();
    holder.promote(9).await.unwrap();
    holder.prune(9).await.unwrap();
    client.delete([job.id].into()).await.unwrap();
    assert_eq!(scene.members("agenda:promote"), ["q"]);
    assert_eq!(client.remove(&name("q")).await.unwrap(), Removed::Done);
    assert_eq!(scene.members("agenda:promote"), [""; 0]);
    // A program that noted it a moment ago does not note it again, and is heard of all the same.
    client.enqueue([later("q", Duration::from_secs(5))].into()).await.unwrap();
    scene.clock.advance(Duration::from_secs(5));
    assert_eq!(holder.promote(9).await.unwrap(), promoted(1));
    let ids = client.list(&Default::default(), None, 9).await.unwrap().jobs;
    client.delete(ids.iter().map(|job| job.id).collect()).await.unwrap();
    assert_eq!(client.remove(&name("q")).await.unwrap(), Removed::Missing);
    scene.clock.advance(2 * MINUTE);
    scene.round(&holder).await;
    for key in ["noted:promote", "agenda:promote", "noted:prune", "agenda:prune", "agenda:reap", "queues"] {
        assert_eq!(scene.members(key), [""; 0], "{key}");
    }
}

#[tokio::test]
async fn queues_that_hold_nothing_are_forgotten_unless_they_are_defined_or_served() {
    let scene = Scene::new().await;
    let store = scene.open().await;
    store.define(&name("defined"), &QueueConfig::default()).await.unwrap();
    store.enqueue([later("used", 10 * LONG)].into()).await.unwrap();
    scene.lease_for(&store, &["served"], 100 * LONG).await;
    let left = job("left", Options::new());
    store.enqueue([left.clone()].into()).await.unwrap();
    store.delete([left.id].into()).await.unwrap();
    scene.register(50, "idle");
    for _ in 0..5 {
        store.promote(9).await.unwrap();
        scene.clock.advance(LONG);
    }
    assert_eq!(scene.members("queues"), ["defined", "served", "used"]);
    assert_eq!(scene.members("agenda:promote"), ["defined", "served", "used"]);
    assert_eq!(scene.server.command(&["EXISTS", &scene.queue_key("left", "meta")]), "0");
    assert_eq!(scene.server.command(&["EXISTS", &scene.key("leaving")]), "0");
}

#[tokio::test]
async fn a_copy_of_a_lease_without_record_is_found_by_the_promoter_that_passes() {
    let scene = Scene::new().await;
    let (worker, holder) = (scene.open().await, scene.open().await);
    let lease = scene.lease(&worker, &["q"]).await;
    worker.enqueue([job("q", Options::new())].into()).await.unwrap();
    assert_eq!(scene.claim(&worker, lease, "q").await.len(), 1);
    for key in ["leases", "lease-expiry", "lease-order"] {
        scene.server.command(&["DEL", &scene.key(key)]);
    }
    holder.promote(9).await.unwrap();
    scene.clock.advance(LONG);
    assert_eq!(holder.lost(9).await.unwrap(), []);
    holder.promote(9).await.unwrap();
    assert_eq!(scene.members("agenda:reap"), ["q"]);
    assert_eq!(scene.reap(&holder).await, 1);
    holder.sweep(9).await.unwrap();
    assert_eq!(scene.members("agenda:reap"), [""; 0]);
    assert_eq!(scene.server.command(&["EXISTS", &scene.queue_key("q", "leases")]), "0");
}

#[tokio::test]
async fn jobs_of_a_queue_that_cannot_be_asked_are_taken_back_later() {
    let scene = Scene::new().await;
    let (worker, holder) = (scene.open().await, scene.open().await);
    let lease = scene.lease(&worker, &["bad", "good"]).await;
    worker.enqueue([job("bad", Options::new())].into()).await.unwrap();
    assert_eq!(scene.claim(&worker, lease, "bad").await.len(), 1);
    let (key, saved) = (scene.queue_key("bad", "leases"), scene.queue_key("bad", "saved"));
    scene.server.command(&["RENAME", &key, &saved]);
    scene.server.command(&["SET", &key, "in the way"]);
    scene.clock.advance(LONG);
    assert_eq!(scene.reap(&holder).await, 0);
    assert_eq!(holder.sweep(9).await.unwrap().leases, 1, "its record holds up nothing");
    assert_eq!(scene.members("agenda:reap"), ["bad"]);
    scene.server.command(&["RENAME", &saved, &key]);
    let next = scene.open().await;
    assert_eq!(scene.reap(&next).await, 1);
    next.sweep(9).await.unwrap();
    assert_eq!(scene.members("agenda:reap"), [""; 0]);
}
