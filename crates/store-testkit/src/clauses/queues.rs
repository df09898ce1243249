//! What queues permit and what they hold.

use windlass_core::clock::Timestamp;
use windlass_core::job::NewJob;
use windlass_core::job::OnDead;
use windlass_core::queue::{
    JobDefaults, Keep, KeyRules, Pause, Pauses, QueueConfig, QueueRecord, Rate, Retention, Shape,
};
use windlass_core::retry::Policy;
use windlass_core::size::{CAP_MAX, Caps};
use windlass_core::store::Filter;
use windlass_core::{Options, Outcome, State, StoreError, StoreErrorKind};

use crate::Harness;
use crate::scene::{QUEUE, Scene, TTL, completed, failed, failed_for_good, name, one, seconds, stalled};

async fn queues(scene: &Scene) -> Vec<QueueRecord> {
    scene.store.queues(None, 1_000).await.expect("queues can be listed")
}

/// One queue by its name is what the list shows of it; an empty one without a definition is not there.
pub async fn one_queue_is_found_by_its_name(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let config = QueueConfig { concurrency: Some(3), ..QueueConfig::default() };
    scene.store.define(&name("defined"), &config).await.expect("a queue can be defined");
    scene.add(Options::new().queue("holds")).await;
    let gone = scene.add(Options::new().queue("empty")).await;
    scene.store.delete([gone].into()).await.expect("a job can be deleted");
    let listed = queues(&scene).await;
    for queue in ["aaa", "defined", "empty", "holds", "other", "zzz"] {
        let found = scene.store.queue(&name(queue)).await.expect("a queue can be read");
        assert_eq!(found, listed.iter().find(|record| record.name.as_str() == queue).cloned());
    }
}

/// A definition reads back, and the next one replaces it.
pub async fn a_definition_reads_back(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let first = QueueConfig {
        retention: Retention {
            completed: Keep { age: Some(seconds(3)), count: Some(u64::MAX >> 1) },
            dead: Keep::FOREVER,
            cancelled: Keep::NONE,
        },
        caps: Caps { payload: 1, output: CAP_MAX, error: 0 },
        pauses: Pauses {
            queue: Some(Pause {
                by: "ada".into(),
                why: "\"a\"\n".into(),
                until: Some(Timestamp::from_micros(7)),
            }),
            kinds: [(name("k"), Pause::default())].into(),
            keys: [(name("t"), Pause::default())].into(),
        },
        concurrency: Some(u32::MAX),
        rate: Some(Rate::new(u32::MAX, seconds(1)).shape(Shape::Fixed)),
        aging: Some(seconds(10)),
        capacity: Some(u64::MAX >> 1),
        keys: Some(KeyRules {
            concurrency: Some(u32::MAX),
            rate: Some(Rate::new(1, seconds(1))),
            weights: [(name("t"), 7)].into(),
        }),
        defaults: JobDefaults {
            retry: Some(Policy::exponential(7, seconds(3))),
            timeout: Some(seconds(9)),
            priority: Some(-3),
            on_dead: OnDead::kind("alert").ok(),
            forward_dead: windlass_core::Name::new("elsewhere").ok(),
        },
        masked: true,
    };
    for config in [first, QueueConfig::default()] {
        scene.store.define(&name("q"), &config).await.expect("a queue can be defined");
        let record = one(queues(&scene).await);
        assert_eq!((record.name, record.config, record.counts.total()), (name("q"), config, 0));
    }
}

/// A definition that no store can keep is refused, and the old one stays.
pub async fn a_bad_definition_is_refused(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let bad =
        QueueConfig { caps: Caps { payload: CAP_MAX + 1, ..Caps::default() }, ..QueueConfig::default() };
    let error = scene.store.define(&name("q"), &bad).await.expect_err("a bad definition is refused");
    assert!(matches!(error, StoreError::Queue(_)), "{error}");
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert_eq!(queues(&scene).await, []);
}

/// Queues are there when they are defined or hold jobs, and otherwise not.
pub async fn a_queue_is_there_while_it_holds_jobs(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let names = async || queues(&scene).await.iter().map(|queue| queue.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names().await, [""; 0]);
    let id = scene.add(Options::new().queue("brief")).await;
    scene.store.define(&name("defined"), &QueueConfig::default()).await.expect("a queue can be defined");
    let in_defined = scene.add(Options::new().queue("defined")).await;
    assert_eq!(names().await, ["brief", "defined"]);
    assert_eq!(queues(&scene).await[0].config, QueueConfig::default());
    scene.delete(id).await;
    scene.delete(in_defined).await;
    assert_eq!(names().await, ["defined"]);
}

/// Queues are listed by name, after a name, up to a limit.
pub async fn queues_are_listed_by_name(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for queue in ["b", "a", "B", "a.b", "a-b", "c", "a:b", "9", "_"] {
        scene.add(Options::new().queue(queue)).await;
    }
    let expected = ["9", "B", "_", "a", "a-b", "a.b", "a:b", "b", "c"];
    for limit in [1, 2, 9, 10] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = scene.store.queues(after.as_ref(), limit).await.expect("queues can be listed");
            assert!(page.len() <= limit as usize);
            let Some(last) = page.last() else { break };
            after = Some(last.name.clone());
            found.extend(page.into_iter().map(|queue| queue.name.to_string()));
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
    assert_eq!(scene.store.queues(None, 0).await.expect("queues can be listed"), []);
    let between = scene.store.queues(Some(&name("a.a")), 1).await.expect("queues can be listed");
    assert_eq!(between[0].name, name("a.b"), "after a name that is not there");
}

/// After every step of every life, the counts are what a list finds.
pub async fn counts_follow_every_change(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.assert_counts().await;
    for queue in [QUEUE, "other"] {
        scene.add(Options::new().queue(queue).delay(seconds(5))).await;
        scene.add(Options::new().queue(queue).expires_in(seconds(2))).await;
    }
    scene.assert_counts().await;
    scene.add_many(8).await;
    scene.assert_counts().await;
    let doomed = scene.lease().await;
    let jobs = scene.claim(doomed, 6).await;
    scene.assert_counts().await;
    let outcomes = [completed(), failed(), failed_for_good(), Outcome::Cancelled, Outcome::Returned];
    for (job, outcome) in jobs.iter().zip(outcomes) {
        scene.settle(job, outcome).await;
        scene.assert_counts().await;
    }
    h.advance(TTL).await;
    let lost = one(scene.store.lost(9).await.expect("lost jobs can be read"));
    scene.store.reap([stalled(&lost)].into()).await.expect("reaping is answered");
    scene.assert_counts().await;
    scene.store.promote(1).await.expect("promoting is answered");
    scene.assert_counts().await;
    scene.store.promote(99).await.expect("promoting is answered");
    scene.assert_counts().await;
    scene.retry(jobs[2].id).await;
    scene.cancel(jobs[4].id).await;
    scene.delete(jobs[0].id).await;
    scene.assert_counts().await;
    let none = Keep::NONE;
    let config = QueueConfig {
        retention: Retention { completed: none, dead: none, cancelled: none },
        ..QueueConfig::default()
    };
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    assert!(scene.store.prune(99).await.expect("pruning is answered") > 0);
    scene.assert_counts().await;
    for job in scene.list(&Filter::default()).await {
        scene.delete(job.id).await;
    }
    scene.assert_counts().await;
    assert_eq!(scene.count(QUEUE, State::Ready).await, 0);
}

/// A refused batch and a repeat count nothing.
pub async fn counts_ignore_what_was_not_stored(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let new = crate::scene::job(Options::new());
    scene.enqueue(new.clone()).await;
    scene.store.enqueue([new.clone()].into()).await.expect("a repeat is answered");
    let taken = NewJob::new("another", "", Options::new()).expect("a proper job").with_id(new.id);
    let batch = [crate::scene::job(Options::new().queue("other")), taken];
    scene.store.enqueue(batch.clone().into()).await.expect_err("the batch is refused");
    assert_eq!(scene.count(QUEUE, State::Ready).await, 1);
    assert_eq!(queues(&scene).await.len(), 1, "a refused job makes no queue");
    scene.assert_counts().await;
}
