//! A worker takes jobs under its lease: in their turn, within its limits, each once.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::FutureExt;
use windlass_core::job::{Counters, NewJob};
use windlass_core::size::Caps;
use windlass_core::store::{ClaimAnswer, ClaimRequest};
use windlass_core::{LeaseId, Options, Outcome, State};

use crate::Harness;
use crate::scene::{
    KIND, QUEUE, Scene, TTL, claim_at_once, failed, ids, job, name, one, request, seconds, settlement, share,
    taken_back,
};

/// A claimed job carries all that a worker needs, runs, and has used an attempt and a fence.
pub async fn hands_out_a_job_with_all_it_needs(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let new = job(Options::new().priority(4).timeout(seconds(9)).max_stalls(7).tag("t"));
    scene.enqueue(new.clone()).await;
    let before = scene.get(new.id).await;
    let claimed = scene.claim_one(scene.lease().await).await;
    assert_eq!((claimed.id, &claimed.queue, &claimed.kind), (new.id, &new.queue, &new.kind));
    assert_eq!((&claimed.payload, claimed.priority, &claimed.tags), (&new.payload, 4, &new.tags));
    assert_eq!((claimed.facts.spec.timeout, claimed.caps), (Some(seconds(9)), Caps::default()));
    assert_eq!(claimed.facts.counters, Counters { attempt: 1, ..Counters::default() });
    assert_eq!((&claimed.facts.spec, claimed.facts.spec.stalls_max), (&new.spec, 7));
    assert_eq!((claimed.enqueued_at, claimed.due_at), (before.enqueued_at, before.due_at));
    assert!(claimed.claimed_at >= claimed.due_at);
    assert_eq!(claimed.fence.number, 1);

    let record = scene.get(new.id).await;
    assert_eq!((record.state, record.fence, record.counters.attempt), (State::Running, 1, 1));
    let [attempt] = record.attempts.as_slice() else { panic!("one attempt runs: {:?}", record.attempts) };
    assert_eq!((attempt.fence, attempt.number, attempt.worker.as_str()), (1, 1, "worker"));
    assert_eq!((attempt.started_at, attempt.ended_at), (claimed.claimed_at, None));
    assert_eq!((attempt.ending, attempt.error.as_deref()), (None, None));
}

/// The highest priority first, from one end of the range to the other; first in, first out within each.
pub async fn goes_by_priority_then_first_in_first_out(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut expected = Vec::new();
    for round in 0..3 {
        for priority in [0, i16::MIN, 1, i16::MAX, -1] {
            expected.push((priority, round, scene.add(Options::new().priority(priority)).await));
        }
    }
    expected.sort_by_key(|&(priority, round, _)| (std::cmp::Reverse(priority), round));
    let expected: Vec<_> = expected.into_iter().map(|(_, _, id)| id).collect();
    assert_eq!(ids(&scene.claim(scene.lease().await, 100).await), expected);
}

/// Jobs of one batch keep their order within it.
pub async fn goes_in_the_order_of_a_batch(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let expected = scene.add_many(50).await;
    let lease = scene.lease().await;
    let mut claimed = Vec::new();
    for _ in 0..10 {
        claimed.extend(ids(&scene.claim(lease, 5).await));
    }
    assert_eq!(claimed, expected);
}

/// Within a priority the earlier due instant goes first, whenever it was accepted.
pub async fn goes_by_due_instant(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let late = scene.add(Options::new().delay(seconds(20))).await;
    let early = scene.add(Options::new().delay(seconds(10))).await;
    let urgent = scene.add(Options::new().delay(seconds(21)).priority(1)).await;
    h.advance(seconds(25)).await;
    let last = scene.add(Options::new()).await;
    assert_eq!(ids(&scene.claim(scene.lease().await, 9).await), [urgent, early, late, last]);
}

/// No more jobs than the request or the queue's share says.
pub async fn heeds_its_limits(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(10).await;
    let lease = scene.lease().await;
    assert_eq!(scene.claim(lease, 3).await.len(), 3);
    let small_share = ClaimRequest { queues: vec![share(QUEUE, 2)], ..request(lease, 9) };
    assert_eq!(scene.ask(&small_share).await.0.len(), 2);
    let small_limit = ClaimRequest { queues: vec![share(QUEUE, 9)], ..request(lease, 1) };
    assert_eq!(scene.ask(&small_limit).await.0.len(), 1);
    assert_eq!(scene.claim(lease, u32::MAX).await.len(), 4);
    assert_eq!(scene.claim(lease, u32::MAX).await.len(), 0);
    scene.assert_counts().await;
}

/// Nothing for a limit of nothing, no queues or no kinds; a queue that is not there holds nothing.
pub async fn may_ask_for_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add(Options::new()).await;
    let lease = scene.lease().await;
    let nothing = [
        request(lease, 0),
        ClaimRequest { queues: vec![share(QUEUE, 0)], ..request(lease, 5) },
        ClaimRequest { queues: Vec::new(), ..request(lease, 5) },
        ClaimRequest { kinds: Vec::new(), ..request(lease, 5) },
        ClaimRequest { queues: vec![share("nowhere", 5)], ..request(lease, 5) },
        ClaimRequest { kinds: vec![name("other")], ..request(lease, 5) },
    ];
    for request in nothing {
        assert_eq!(scene.ask(&request).await, (Vec::new(), None), "{request:?}");
    }
}

/// Payload bytes are limited, but the first job is handed out whatever its size; a job that does not fit
/// ends the claim instead of losing its turn.
pub async fn heeds_its_bytes(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut sized = Vec::new();
    for bytes in [100, 100, 100, 500, 10, 10] {
        let new = NewJob::new(KIND, vec![b'x'; bytes], Options::new()).expect("a proper job");
        sized.push(scene.enqueue(new).await);
    }
    let elsewhere = NewJob::new(KIND, "x", Options::new().queue("other")).expect("a proper job");
    let elsewhere = scene.enqueue(elsewhere).await;
    let lease = scene.lease().await;
    let up_to =
        |bytes| ClaimRequest { queues: vec![share(QUEUE, 9), share("other", 9)], bytes, ..request(lease, 9) };
    assert_eq!(ids(&scene.ask(&up_to(250)).await.0), sized[..2], "the third does not fit");
    assert_eq!(ids(&scene.ask(&up_to(0)).await.0), sized[2..3], "the first whatever its size");
    assert_eq!(ids(&scene.ask(&up_to(50)).await.0), sized[3..4], "the first whatever its size");
    assert_eq!(ids(&scene.ask(&up_to(20)).await.0), sized[4..], "up to the very byte");
    assert_eq!(ids(&scene.ask(&up_to(1)).await.0), [elsewhere]);
}

/// The limit of bytes counts in the one order across kinds, whatever was looked at first.
pub async fn heeds_its_bytes_across_kinds(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut all = Vec::new();
    for (index, bytes) in [60, 30, 20, 10, 90, 0, 5, 400, 1, 1].into_iter().enumerate() {
        let kind = ["a", "b", "c"][index % 3];
        let new = NewJob::new(kind, vec![b'x'; bytes], Options::new()).expect("a proper job");
        all.push(scene.enqueue(new).await);
    }
    let lease = scene.lease().await;
    let kinds = ["c", "b", "a"].map(name).to_vec();
    let up_to = |bytes| ClaimRequest { kinds: kinds.clone(), bytes, ..request(lease, 9) };
    assert_eq!(ids(&scene.ask(&up_to(110)).await.0), all[..3]);
    assert_eq!(ids(&scene.ask(&up_to(99)).await.0), all[3..4]);
    assert_eq!(ids(&scene.ask(&up_to(95)).await.0), all[4..7], "an empty one fits");
    assert_eq!(ids(&scene.ask(&up_to(400)).await.0), all[7..8]);
    assert_eq!(ids(&scene.ask(&up_to(2)).await.0), all[8..]);
}

/// Only the kinds that the worker names, in one order across them.
pub async fn takes_only_its_kinds(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut by_kind = Vec::new();
    for kind in ["a", "b", "c", "b", "a", "c", "a"] {
        by_kind
            .push((kind, scene.enqueue(NewJob::new(kind, "", Options::new()).expect("a proper job")).await));
    }
    let lease = scene.lease().await;
    let two = ClaimRequest { kinds: vec![name("b"), name("a")], ..request(lease, 9) };
    let expected: Vec<_> = by_kind.iter().filter(|(kind, _)| *kind != "c").map(|&(_, id)| id).collect();
    assert_eq!(ids(&scene.ask(&two).await.0), expected);
    let third = ClaimRequest { kinds: vec![name("c")], ..request(lease, 9) };
    assert_eq!(scene.ask(&third).await.0.len(), 2);
}

/// Twelve kinds, one of which most jobs are of: one order across all of them, claim after claim.
pub async fn serves_many_kinds_in_one_order(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let kinds: Vec<_> = (0..12).map(|number| format!("kind-{number}")).collect();
    let mut batch = Vec::new();
    for index in 0..360_usize {
        let kind = if index % 10 == 3 { &kinds[(index / 10) % 12] } else { &kinds[5] };
        let priority = [0, 0, 2, 0, -1, 0, 0][index % 7];
        let new = NewJob::new(kind, "{}", Options::new().priority(priority)).expect("a proper job");
        batch.push(new);
    }
    scene.store.enqueue(batch.as_slice().into()).await.expect("proper jobs are accepted");
    batch.sort_by_key(|job| std::cmp::Reverse(job.priority));
    let expected: Vec<_> = batch.iter().map(|job| job.id).collect();
    let lease = scene.lease().await;
    let names: Vec<_> = kinds.iter().map(|kind| name(kind)).collect();
    let mut claimed = Vec::new();
    for limit in [1, 2, 40, 7, 100, 500] {
        let (jobs, _) = scene.ask(&ClaimRequest { kinds: names.clone(), ..request(lease, limit) }).await;
        claimed.extend(ids(&jobs));
        assert_eq!(claimed, expected[..claimed.len()], "after a claim of {limit}");
    }
    assert_eq!(claimed.len(), expected.len());
    scene.assert_counts().await;
}

/// Jobs of kinds that no worker here knows hold up no others, however many they are and whatever their
/// priority.
pub async fn finds_its_kinds_behind_many_others(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let unknown = |index: usize| {
        let options = Options::new().priority(i16::from(index.is_multiple_of(2)));
        NewJob::new(format!("unknown-{}", index % 3), "{}", options).expect("a proper job")
    };
    let head: Vec<_> = (0..2_500).map(unknown).collect();
    scene.store.enqueue(head.as_slice().into()).await.expect("proper jobs are accepted");
    let expected = scene.add_many(5).await;
    let lease = scene.lease().await;
    let kinds = ["other", KIND, "another"].map(name).to_vec();
    let known = ClaimRequest { kinds, ..request(lease, 3) };
    assert_eq!(ids(&scene.ask(&known).await.0), expected[..3]);
    assert_eq!(ids(&scene.ask(&known).await.0), expected[3..]);
    assert_eq!(scene.ask(&known).await, (Vec::new(), None));
    assert_eq!(scene.count(QUEUE, State::Ready).await, 2_500);
}

/// Queues are served in the order of the request, each up to its share, whatever the priorities.
pub async fn serves_queues_in_order(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for queue in ["a", "b", "c"] {
        for priority in [0, 5] {
            scene.add(Options::new().queue(queue).priority(priority)).await;
        }
    }
    let lease = scene.lease().await;
    let queues = vec![share("c", 1), share("a", 9), share("b", 9)];
    let (jobs, _) = scene.ask(&ClaimRequest { queues, ..request(lease, 4) }).await;
    let served: Vec<_> = jobs.iter().map(|job| (job.queue.as_str(), job.priority)).collect();
    assert_eq!(served, [("c", 5), ("a", 5), ("a", 0), ("b", 5)]);
}

/// Many claims at once hand out every job once.
pub async fn hands_out_each_job_once(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let all: HashSet<_> = scene.add_many(200).await.into_iter().collect();
    let handed_out = claim_at_once(&[&scene; 8], |lease| request(lease, 7)).await;
    assert_eq!(handed_out.len(), 200, "every job once");
    assert_eq!(handed_out.into_iter().collect::<HashSet<_>>(), all);
    scene.assert_counts().await;
}

/// Each claim of a job has the next fence number and other random bits.
pub async fn gives_every_claim_its_own_fence(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add(Options::new()).await;
    let lease = scene.lease().await;
    let mut nonces = HashSet::new();
    for number in 1..=5 {
        let job = scene.claim_one(lease).await;
        assert_eq!(job.fence.number, number);
        assert_eq!(job.facts.counters.attempt, 1, "a returned attempt is given back");
        assert!(nonces.insert(job.fence.nonce), "random bits were repeated");
        scene.settle(&job, Outcome::Returned).await;
    }
}

/// Nothing is handed out, and nothing moved, under a lease that is unknown, closed or has run out.
pub async fn refuses_a_lost_lease(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add(Options::new().delay(seconds(1))).await;
    let ready = scene.add(Options::new()).await;
    let (closed, expired) = (scene.lease().await, scene.lease().await);
    scene.store.close(closed).await.expect("a lease closes");
    h.advance(TTL).await;
    for lease in [LeaseId::new(), closed, expired] {
        let answer = scene.store.claim(request(lease, 9)).await.expect("a claim is answered");
        assert_eq!(answer, ClaimAnswer::LeaseLost);
    }
    assert_eq!(scene.state(ready).await, State::Ready);
    assert_eq!(scene.count(QUEUE, State::Scheduled).await, 1, "a lost lease moves nothing");
}

/// What a call took whose future was dropped hangs on its lease, and is found and taken back with it: no job is
/// lost with the caller.
pub async fn a_dropped_call_leaves_its_jobs_to_the_lease(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let all: HashSet<_> = scene.add_many(10).await.into_iter().collect();
    for round in 0..5 {
        let lease = scene.lease().await;
        // Polled once and then dropped, wherever it was. Once the lease is closed, nothing is claimed under it.
        let _ = scene.store.claim(request(lease, 4)).now_or_never();
        scene.store.close(lease).await.expect("a lease closes");
        let lost = scene.store.lost(99).await.expect("lost jobs can be read");
        let running = scene.count(QUEUE, State::Running).await;
        assert_eq!(running, lost.len() as u64, "round {round}: a job runs under no lease");
        assert!(running == 0 || running == 4, "round {round}: {running} of 4 were claimed");
        let back: Vec<_> = lost.iter().map(taken_back).collect();
        scene.store.reap(back.as_slice().into()).await.expect("reaping is answered");
    }
    // A call that was dropped may hold its jobs locked until it has heard that its lease is gone.
    let (lease, mut rest) = (scene.lease().await, Vec::new());
    for _ in 0..2_000 {
        rest.extend(scene.claim(lease, 99).await);
        if rest.len() >= all.len() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(rest.len(), all.len(), "what never began comes back, however often");
    assert!(rest.iter().all(|job| job.facts.counters.attempt == 1 && job.facts.counters.stalls == 0));
    assert!(rest.iter().all(|job| all.contains(&job.id)));
    scene.assert_counts().await;
}

/// A job that was returned keeps its place; one that failed goes behind those that were due earlier.
pub async fn a_returned_job_keeps_its_place(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let all = scene.add_many(3).await;
    let lease = scene.lease().await;
    let first = scene.claim_one(lease).await;
    h.advance(seconds(1)).await;
    scene.settle(&first, Outcome::Returned).await;
    assert_eq!(scene.get(first.id).await.due_at, first.due_at);
    assert_eq!(scene.claim_one(lease).await.id, all[0]);
}

/// The nonce of a claim is its caller's, so that the caller can ask for what the claim took.
pub async fn fences_have_the_nonce_of_the_request(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(5).await;
    let lease = scene.lease().await;
    for nonce in [0, 1, u64::MAX >> 1] {
        let (jobs, _) = scene.ask(&ClaimRequest { nonce, ..request(lease, 1) }).await;
        assert_eq!(one(jobs).fence.nonce, nonce);
    }
}

/// The attempt counter stays at its maximum instead of starting again.
pub async fn counts_attempts_to_the_end_of_their_range(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    for (stored, next) in [(1 << 31, (1 << 31) + 1), (u32::MAX - 1, u32::MAX), (u32::MAX, u32::MAX)] {
        let id = scene.add(Options::new()).await;
        let claimed = scene.claim_one(lease).await;
        let mut back = settlement(&claimed, Outcome::Returned);
        back.transition.counters.attempt = stored;
        scene.settle_raw(back).await;
        assert_eq!(scene.get(id).await.counters.attempt, stored);
        let claimed = scene.claim_one(lease).await;
        assert_eq!((claimed.id, claimed.facts.counters.attempt), (id, next));
        assert_eq!(scene.get(id).await.attempts.last().map(|attempt| attempt.number), Some(next));
        assert_eq!(scene.settle(&claimed, failed()).await, State::Dead);
    }
}
