//! Queues that use a rule which this program does not know: it is told, and stays out of them and of nothing else.

use windlass_core::queue::{QueueConfig, RULES};
use windlass_core::store::{Amended, ClaimAnswer, ClaimRequest, Enqueued, SickQueue};
use windlass_core::{ClaimedJob, LeaseId, NewJob, Options, State, StoreError, StoreErrorKind};

use super::at_once::pair;
use crate::Harness;
use crate::report::say_skipped;
use crate::scene::{Scene, completed, job, name, request, share};

/// The first rule that this program does not know.
const NEWER: u32 = RULES + 1;

/// Has a newer program define queue `a` with this rule. False where the harness has none.
async fn use_rule(h: &impl Harness, scene: &Scene, rule: u32) -> bool {
    let is_used = h.use_rule(&scene.store, &name("a"), rule).await;
    if !is_used {
        say_skipped("rules", "this harness cannot define a queue as a newer program does");
    }
    is_used
}

fn in_queue(queue: &str) -> NewJob {
    job(Options::new().queue(queue))
}

/// Claims from queues; also answers which of them are sick.
async fn claim(scene: &Scene, lease: LeaseId, queues: &[&str]) -> (Vec<ClaimedJob>, Vec<SickQueue>) {
    let queues = queues.iter().map(|queue| share(queue, 9)).collect();
    match scene.store.claim(ClaimRequest { queues, ..request(lease, 9) }).await.expect("a claim is answered")
    {
        ClaimAnswer::Jobs { jobs, sick, .. } => (jobs, sick),
        ClaimAnswer::LeaseLost => panic!("the lease lives"),
    }
}

fn assert_told(error: &StoreError) {
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    let StoreError::UnknownRules { queue, rules, known } = error else { panic!("{error}") };
    assert_eq!((queue, *rules, *known), (&name("a"), NEWER, RULES));
}

/// Such a queue takes no job from this program, also not in a batch with others, and others take theirs.
pub async fn a_queue_with_a_newer_rule_takes_no_job(h: &impl Harness) {
    let (here, there) = pair(h).await;
    // What is known of the definition is from before.
    for scene in [&here, &there] {
        scene.enqueue(in_queue("a")).await;
    }
    if !use_rule(h, &here, NEWER).await {
        return;
    }
    for scene in [&here, &there] {
        assert_told(
            &scene.store.enqueue([in_queue("a")].into()).await.expect_err("it is not this program's"),
        );
        let batch = [in_queue("b"), in_queue("a")];
        assert_told(&scene.store.enqueue(batch.clone().into()).await.expect_err("it is not this program's"));
        assert_eq!(scene.store.enqueue([in_queue("b")].into()).await.expect("b is as ever"), [Enqueued::New]);
    }
    assert_eq!((here.count("a", State::Ready).await, here.count("b", State::Ready).await), (2, 2));
    here.assert_counts().await;
}

/// Nothing is claimed there; the claim names the queue, and hands out jobs of the others.
pub async fn a_queue_with_a_newer_rule_is_not_claimed_from(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    for queue in ["a", "b", "a"] {
        scene.enqueue(in_queue(queue)).await;
    }
    if !use_rule(h, &scene, NEWER).await {
        return;
    }
    let (jobs, sick) = claim(&scene, lease, &["a", "b"]).await;
    assert!(jobs.len() == 1 && jobs[0].queue == name("b"), "{jobs:?}");
    let is_named = |sick: &[SickQueue]| match sick {
        [a] => a.queue == name("a") && a.what.contains("uses rule") && a.kind == StoreErrorKind::Unavailable,
        _ => false,
    };
    assert!(is_named(&sick), "{sick:?}");
    let (jobs, sick) = claim(&scene, lease, &["a"]).await;
    assert!(jobs.is_empty() && is_named(&sick), "alone as well: {jobs:?} {sick:?}");
    assert_eq!(scene.count("a", State::Ready).await, 2);
}

/// Its definition is not replaced and the queue not removed by a program that does not know what it says.
pub async fn a_newer_definition_stays(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.store.define(&name("a"), &QueueConfig::default()).await.expect("a queue can be defined");
    if !use_rule(h, &scene, NEWER).await {
        return;
    }
    let config = QueueConfig::unreadable();
    assert_told(&scene.store.define(&name("a"), &config).await.expect_err("it is not this program's"));
    let redefined = scene.store.redefine(&name("a"), &QueueConfig::unreadable(), &config).await;
    assert_told(&redefined.expect_err("whatever was read"));
    assert_told(&scene.store.remove(&name("a")).await.expect_err("it is not this program's"));
    scene.store.define(&name("b"), &config).await.expect("others are as ever");
    let queues = scene.store.queues(None, 9).await.expect("queues can be listed");
    assert_eq!(queues.len(), 2, "it can be looked at");
    assert_ne!(queues[0].config, config);
    assert_told(&scene.store.enqueue([in_queue("a")].into()).await.expect_err("nothing has changed"));
}

/// What this program has begun it may end, and what a person asks for is done.
pub async fn what_was_begun_may_end(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    let waiting = in_queue("a");
    scene.enqueue(in_queue("a")).await;
    let (jobs, _) = claim(&scene, lease, &["a"]).await;
    scene.enqueue(waiting.clone()).await;
    if !use_rule(h, &scene, NEWER).await {
        return;
    }
    scene.begin(&jobs[0]).await;
    assert_eq!(scene.settle(&jobs[0], completed()).await, State::Completed);
    assert_eq!(scene.cancel(waiting.id).await, Amended::Done(State::Cancelled));
    scene.assert_counts().await;
}

/// When the queue no longer uses the rule, this program goes on with it.
pub async fn a_queue_comes_back_when_the_rule_goes(h: &impl Harness) {
    let (here, there) = pair(h).await;
    let lease = there.lease().await;
    here.enqueue(in_queue("a")).await;
    if !use_rule(h, &here, NEWER).await {
        return;
    }
    let (_, sick) = claim(&there, lease, &["a"]).await;
    assert_eq!(sick.len(), 1);
    for scene in [&here, &there] {
        scene.store.enqueue([in_queue("a")].into()).await.expect_err("it is not this program's");
    }
    assert!(use_rule(h, &here, RULES).await);
    for scene in [&here, &there] {
        scene.enqueue(in_queue("a")).await;
    }
    let (jobs, sick) = claim(&there, lease, &["a"]).await;
    assert!(jobs.len() == 3 && sick.is_empty(), "{jobs:?} {sick:?}");
}
