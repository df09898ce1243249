//! Gates on the server: what does not agree with the jobs is found and mended, and what need not be touched is left alone.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "harness/two_queues.rs"]
mod two_queues;

use std::time::Duration;

use two_queues::{Scene, ids, job, name};
use windlass_core::queue::{KeyRules, Pause, Pauses, QueueConfig};
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Jobs, Maintenance, QueueShare, Queues, Settled, Settlement,
};
use windlass_core::{ClaimedJob, Options, Outcome, State, judge};

fn keyed(key: &str) -> Options {
    Options::new().key(key)
}

fn paused(keys: &[&str]) -> Pauses {
    Pauses { keys: keys.iter().map(|key| (name(key), Pause::default())).collect(), ..Pauses::default() }
}

async fn define(scene: &Scene, pauses: Pauses, concurrency: Option<u32>) {
    let keys = Some(KeyRules { concurrency, ..KeyRules::default() });
    let config = QueueConfig { pauses, keys, ..QueueConfig::default() };
    scene.store.define(&name("bad"), &config).await.unwrap();
}

impl Scene {
    /// What a command answers about a key of queue `bad`.
    fn ask(&self, command: &str, key: &str, words: &[&str]) -> String {
        self.server.command(&[&[command, &self.key(key)], words].concat()).trim().to_owned()
    }
}

/// A round of maintenance that visits all queues: the first one of a program enters them into its agenda.
async fn maintain(scene: &Scene) {
    for _ in 0..2 {
        scene.store.promote(9).await.unwrap();
        scene.clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_ready_job_without_a_gate_gets_one() {
    let scene = Scene::new().await;
    define(&scene, Pauses::default(), None).await;
    // More than one script looks at.
    let many: Vec<_> = (0..600).map(|number| job("bad", keyed(&format!("key-{}", number % 7)))).collect();
    scene.store.enqueue(many.as_slice().into()).await.unwrap();
    let (lost, placeless) = (scene.add("bad", keyed("a")).await, scene.add("bad", keyed("b")).await);
    scene.ask("ZREM", "open", &["a", "b"]);
    scene.ask("DEL", "behind:b", &[]);
    assert_eq!(scene.claim(700).await.jobs.len(), 600);
    maintain(&scene).await;
    assert_eq!(ids(&scene.claim(9).await.jobs), [lost, placeless]);
    assert_eq!(scene.ask("HEXISTS", "meta", &["sweep"]), "0", "it is through");
}

#[tokio::test]
async fn counts_of_running_jobs_are_made_right() {
    let scene = Scene::new().await;
    define(&scene, Pauses::default(), Some(2)).await;
    for key in ["a", "a", "b", "c"] {
        scene.add("bad", keyed(key)).await;
    }
    assert_eq!(scene.claim(9).await.jobs.len(), 4);
    scene.ask("HSET", "busy", &["a", "1", "b", "5", "none", "3"]);
    scene.ask("HDEL", "busy", &["c"]);
    let waiting = scene.add("bad", keyed("b")).await;
    assert_eq!(scene.claim(9).await.jobs, [], "it is closed");
    maintain(&scene).await;
    let counts = ["a", "b", "c", "none"].map(|key| scene.ask("HGET", "busy", &[key]));
    assert_eq!(counts, ["2", "1", "1", ""]);
    assert_eq!(ids(&scene.claim(9).await.jobs), [waiting]);
}

/// A program of a later version may count what this one cannot read.
#[tokio::test]
async fn counts_beside_a_job_of_a_strange_form_are_left_alone() {
    let scene = Scene::new().await;
    define(&scene, Pauses::default(), Some(2)).await;
    let jobs = [scene.add("bad", keyed("a")).await, scene.add("bad", keyed("a")).await];
    assert_eq!(scene.claim(9).await.jobs.len(), 2);
    scene.put(jobs[0], 1, 243);
    maintain(&scene).await;
    assert_eq!(scene.ask("HGET", "busy", &["a"]), "2");
}

/// A claim reads all that it needs before it takes turns away.
#[tokio::test]
async fn a_claim_that_fails_costs_no_turn() {
    let scene = Scene::new().await;
    define(&scene, Pauses::default(), Some(2)).await;
    for _ in 0..3 {
        scene.add("bad", Options::new()).await;
    }
    scene.add("bad", keyed("a")).await;
    scene.spoil("busy");
    let request = ClaimRequest {
        lease: scene.lease,
        // Jobs without a key come first.
        nonce: 2,
        queues: ["bad", "good"].map(|queue| QueueShare { queue: name(queue), limit: 9 }).to_vec(),
        kinds: vec![name("k")],
        limit: 9,
        at_once: 9,
        bytes: usize::MAX,
    };
    let answer = scene.store.claim(request).await.unwrap();
    assert!(matches!(&answer, ClaimAnswer::Jobs { sick, .. } if sick.len() == 1), "{answer:?}");
    assert_eq!(scene.ask("LLEN", "line:k", &[]), "3");
}

#[tokio::test]
async fn a_gate_that_is_closed_for_no_reason_is_opened() {
    let scene = Scene::new().await;
    define(&scene, paused(&["paused"]), Some(1)).await;
    for key in ["full", "full", "paused"] {
        scene.add("bad", keyed(key)).await;
    }
    assert_eq!(scene.claim(9).await.jobs.len(), 1);
    let waiting = scene.add("bad", keyed("a")).await;
    scene.ask("ZREM", "open", &["a"]);
    scene.ask("ZADD", "closed", &["+inf", "a"]);
    assert_eq!(scene.claim(9).await.jobs, []);
    maintain(&scene).await;
    let closed = ["full", "paused"].map(|key| scene.ask("ZSCORE", "closed", &[key]));
    assert_eq!(closed, ["inf", "inf"], "these have a reason");
    assert_eq!(ids(&scene.claim(9).await.jobs), [waiting]);
}

/// Nothing is looked for where no job has a key, and not again within a minute where some have.
#[tokio::test]
async fn gates_are_compared_now_and_then() {
    let scene = Scene::new().await;
    scene.add("good", Options::new()).await;
    define(&scene, Pauses::default(), None).await;
    scene.add("bad", keyed("a")).await;
    maintain(&scene).await;
    let swept = |queue: &str| {
        let meta = scene.key("meta").replace(":bad}", &format!(":{queue}}}"));
        scene.server.command(&["HEXISTS", &meta, "swept"]).trim().to_owned()
    };
    assert_eq!((swept("good"), swept("bad")), ("0".into(), "1".into()));
    scene.ask("ZREM", "open", &["a"]);
    maintain(&scene).await;
    assert_eq!(scene.ask("ZSCORE", "open", &["a"]), "");
    scene.clock.advance(two_queues::TTL);
    maintain(&scene).await;
    assert_eq!(scene.ask("ZSCORE", "open", &["a"]), "0");
}

#[tokio::test]
async fn a_definition_opens_only_gates_whose_rules_have_changed() {
    let scene = Scene::new().await;
    define(&scene, paused(&["a", "b"]), Some(1)).await;
    for key in ["a", "b", "full", "full"] {
        scene.add("bad", keyed(key)).await;
    }
    assert_eq!(scene.claim(9).await.jobs.len(), 1);
    let closed = || ["a", "b", "full"].map(|key| scene.ask("ZSCORE", "closed", &[key]));
    assert_eq!(closed(), ["inf", "inf", "inf"]);
    let mut config =
        QueueConfig { pauses: paused(&["a", "b"]), capacity: Some(99), ..QueueConfig::default() };
    config.keys = Some(KeyRules { concurrency: Some(1), ..KeyRules::default() });
    scene.store.define(&name("bad"), &config).await.unwrap();
    assert_eq!(closed(), ["inf", "inf", "inf"], "nothing about keys has changed");
    define(&scene, paused(&["b"]), Some(1)).await;
    assert_eq!(closed(), ["0", "inf", "inf"], "the definition has lifted the pause of key a only");
    define(&scene, paused(&["b"]), Some(2)).await;
    assert_eq!(closed(), ["0", "0", "0"], "more may run of each");
}

#[tokio::test]
async fn a_paused_queue_asks_no_gates() {
    let scene = Scene::new().await;
    define(&scene, Pauses { queue: Some(Pause::default()), ..paused(&["a"]) }, None).await;
    for key in ["a", "b"] {
        scene.add("bad", keyed(key)).await;
    }
    assert_eq!(scene.claim(9).await.jobs, []);
    assert_eq!(
        (scene.ask("ZCARD", "open", &[]), scene.ask("ZCARD", "closed", &[])),
        ("2".into(), "0".into())
    );
}

/// Completes attempts.
async fn complete(scene: &Scene, jobs: &[ClaimedJob]) {
    let settlement = |job: &ClaimedJob| Settlement {
        queue: job.queue.clone(),
        id: job.id,
        fence: job.fence,
        transition: judge(&job.facts, Outcome::Completed { output: None }, 0.5),
    };
    let settlements: Vec<_> = jobs.iter().map(settlement).collect();
    let settled = scene.store.settle(settlements.as_slice().into()).await.unwrap();
    assert!(settled.iter().all(|settled| *settled == Settled::Applied(State::Completed)), "{settled:?}");
}

#[tokio::test]
async fn what_runs_is_counted_when_its_key_gets_a_limit() {
    let scene = Scene::new().await;
    define(&scene, Pauses::default(), None).await;
    for key in ["a", "b", "a", "b", "a"] {
        scene.add("bad", keyed(key)).await;
    }
    let running = scene.claim(9).await.jobs;
    let uncounted = || scene.ask("HGET", "meta", &["uncounted"]);
    assert_eq!((running.len(), scene.ask("HLEN", "busy", &[]), uncounted()), (5, "0".into(), "5".into()));
    define(&scene, Pauses::default(), Some(3)).await;
    for key in ["a", "b"] {
        scene.add("bad", keyed(key)).await;
    }
    let more = scene.claim(9).await.jobs;
    assert_eq!(more.iter().map(|job| job.key.clone()).collect::<Vec<_>>(), [Some(name("b"))]);
    assert_eq!(["a", "b"].map(|key| scene.ask("HGET", "busy", &[key])), ["3", "3"]);
    assert_eq!(uncounted(), "");
    complete(&scene, &running).await;
    assert_eq!(scene.claim(9).await.jobs.len(), 1, "the one of key a");
    assert_eq!(["a", "b"].map(|key| scene.ask("HGET", "busy", &[key])), ["1", "1"]);
}

/// More jobs run than one script counts.
#[tokio::test]
async fn many_jobs_are_counted_in_parts() {
    let scene = Scene::new().await;
    define(&scene, Pauses::default(), None).await;
    let many: Vec<_> = (0..2_500).map(|number| job("bad", keyed(&format!("key-{}", number % 5)))).collect();
    for some in many.chunks(500) {
        scene.store.enqueue(some.into()).await.unwrap();
    }
    let running = scene.claim(2_500).await.jobs;
    assert_eq!(running.len(), 2_500);
    define(&scene, Pauses::default(), Some(500)).await;
    for number in 0..6 {
        scene.add("bad", keyed(&format!("key-{number}"))).await;
    }
    assert_eq!(scene.claim(9).await.jobs.len(), 1, "that of a key of which none runs");
    let counts: Vec<_> =
        (0..6).map(|number| scene.ask("HGET", "busy", &[&format!("key-{number}")])).collect();
    assert_eq!(counts, ["500", "500", "500", "500", "500", "1"]);
    assert_eq!(scene.ask("HMGET", "meta", &["uncounted", "counting"]), "");
    complete(&scene, &running).await;
    assert_eq!(scene.claim(9).await.jobs.len(), 5, "which no limit can bind by now");
    assert_eq!(
        (scene.ask("HVALS", "busy", &[]), scene.ask("HGET", "meta", &["uncounted"])),
        ("1".into(), "5".into())
    );
}

/// However an attempt ends that was not counted, nothing is left of it.
#[tokio::test]
async fn jobs_that_were_not_counted_leave_no_count() {
    let scene = Scene::new().await;
    // Fewer run than one key may have.
    define(&scene, Pauses::default(), Some(50)).await;
    for _ in 0..4 {
        scene.add("bad", keyed("a")).await;
    }
    let running = scene.claim(9).await.jobs;
    assert_eq!((running.len(), scene.ask("HGET", "meta", &["uncounted"])), (4, "4".into()));
    scene.store.cancel([running[0].id, running[1].id].into()).await.unwrap();
    let outcomes = [Outcome::Returned, Outcome::Completed { output: None }, Outcome::Returned];
    for (job, outcome) in running.iter().zip(outcomes) {
        let transition = judge(&job.facts, outcome, 0.5);
        let settlement = Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition };
        scene.store.settle([settlement].as_slice().into()).await.unwrap();
    }
    assert_eq!(scene.ask("HGET", "meta", &["uncounted"]), "1");
    assert_eq!(ids(&scene.claim(9).await.jobs), [running[2].id], "the others have ended, or run");
    assert_eq!(scene.ask("HGET", "meta", &["uncounted"]), "2");
    maintain(&scene).await;
    assert_eq!(
        (scene.ask("HGET", "meta", &["uncounted"]), scene.ask("HLEN", "busy", &[])),
        ("2".into(), "0".into())
    );
}
