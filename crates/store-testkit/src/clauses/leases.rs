//! A lease tells a living worker from a dead one: it lives while it is renewed, and never comes back.

use std::time::Duration;

use windlass_core::size::LABEL_MAX;
use windlass_core::store::{ClaimAnswer, ClaimRequest, LeaseRecord, NewLease, Renewal, Settled};
use windlass_core::{LeaseId, Options, Outcome, State};

use crate::Harness;
use crate::scene::{
    QUEUE, Scene, TTL, assert_after, completed, ids, name, one, request, seconds, share, stalled, taken_back,
};

fn alive() -> Renewal {
    Renewal::Renewed { cancel: Vec::new(), lost: Vec::new() }
}

async fn renew(scene: &Scene, lease: LeaseId) -> Renewal {
    scene.store.renew(lease, TTL, 100).await.expect("a renewal is answered")
}

async fn find(scene: &Scene, lease: LeaseId) -> Option<LeaseRecord> {
    let leases = scene.store.leases(1_000).await.expect("leases can be listed");
    leases.into_iter().find(|record| record.id == lease)
}

/// An open lease can be looked at, with the jobs that hang on it.
pub async fn an_open_lease_reads_back(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = NewLease {
        id: LeaseId::new(),
        worker: "höst-7 «a»".into(),
        ttl: TTL,
        queues: vec![name("b"), name(QUEUE)],
        kinds: vec![name("z"), name("a:b")],
    };
    scene.store.open(&lease).await.expect("a lease opens");
    scene.add_many(3).await;
    let jobs = scene.claim(lease.id, 2).await;
    let record = find(&scene, lease.id).await.expect("the lease is there");
    assert_eq!((&record.worker, &record.queues), (&lease.worker, &lease.queues));
    assert_eq!(record.kinds, lease.kinds);
    assert_eq!(record.expires_at, record.opened_at.plus(TTL));
    assert_eq!((record.is_lost, record.running), (false, 2));
    scene.settle(&jobs[0], completed()).await;
    assert_eq!(find(&scene, lease.id).await.map(|record| record.running), Some(1));
    assert_eq!(scene.get(jobs[1].id).await.attempts[0].worker, lease.worker);
}

/// Leases are listed newest first, up to a limit.
pub async fn leases_are_listed_newest_first(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut opened = Vec::new();
    for _ in 0..4 {
        opened.push(scene.lease().await);
        h.advance(seconds(1)).await;
    }
    opened.reverse();
    for limit in [0, 1, 3, 4, 9] {
        let listed = scene.store.leases(limit).await.expect("leases can be listed");
        let listed: Vec<_> = listed.iter().map(|record| record.id).collect();
        assert_eq!(listed, opened[..(limit as usize).min(4)]);
    }
}

/// A lease lives as long as it is renewed, and no longer.
pub async fn a_renewed_lease_lives(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    for _ in 0..3 {
        h.advance(TTL - seconds(10)).await;
        assert_eq!(renew(&scene, lease).await, alive());
    }
    let record = find(&scene, lease).await.expect("the lease is there");
    assert_after(record.expires_at, record.opened_at, 4 * TTL - seconds(30));
    h.advance(TTL).await;
    assert!(find(&scene, lease).await.expect("the lease is there").is_lost);
    assert_eq!(renew(&scene, lease).await, Renewal::Lost);
}

/// A renewal sets the end anew, also to an earlier one.
pub async fn a_renewal_may_shorten_a_lease(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    let answer = scene.store.renew(lease, seconds(5), 9).await.expect("a renewal is answered");
    assert_eq!(answer, alive());
    h.advance(seconds(5)).await;
    assert_eq!(renew(&scene, lease).await, Renewal::Lost);
}

/// A lease that has run out stays so, although it was not reaped or swept, and although it is tried again.
pub async fn a_lost_lease_stays_lost(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    let lease = scene.store.leases(1).await.expect("leases can be listed")[0].id;
    h.advance(TTL).await;
    for _ in 0..3 {
        assert_eq!(renew(&scene, lease).await, Renewal::Lost);
        let answer = scene.store.claim(request(lease, 1)).await.expect("a claim is answered");
        assert_eq!(answer, ClaimAnswer::LeaseLost);
    }
    assert_eq!(scene.store.lost(9).await.expect("lost jobs can be read")[0].id, job.id);
    assert_eq!(renew(&scene, LeaseId::new()).await, Renewal::Lost, "an unknown lease is lost");
}

/// Opening the same lease again changes nothing, and does not bring it back.
pub async fn a_repeated_open_changes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let first = NewLease {
        id: LeaseId::new(),
        worker: "one".into(),
        ttl: TTL,
        queues: Vec::new(),
        kinds: Vec::new(),
    };
    scene.store.open(&first).await.expect("a lease opens");
    let before = find(&scene, first.id).await;
    h.advance(seconds(10)).await;
    let again = NewLease { worker: "two".into(), ttl: 3 * TTL, ..first.clone() };
    scene.store.open(&again).await.expect("a repeat is answered");
    assert_eq!(find(&scene, first.id).await, before);
    h.advance(TTL).await;
    scene.store.open(&again).await.expect("a repeat is answered");
    assert_eq!(renew(&scene, first.id).await, Renewal::Lost);
}

/// A label is any text: short and clean in what is stored, wherever it is shown.
pub async fn a_label_is_any_text(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let long = format!("{}\0{}", "ü".repeat(60), "x".repeat(5_000));
    for worker in ["", "\0", "a\0b", "'; --\n\u{1b}[2J", "höst «☃» 💥", &long] {
        let queues = vec![name(QUEUE)];
        let lease =
            NewLease { id: LeaseId::new(), worker: worker.to_owned(), ttl: TTL, queues, kinds: Vec::new() };
        scene.store.open(&lease).await.expect("a lease opens");
        let kept = lease.label();
        assert!(kept.len() <= LABEL_MAX && !kept.contains('\0'));
        assert_eq!(find(&scene, lease.id).await.expect("the lease is there").worker, kept);
        let id = scene.add(Options::new()).await;
        scene.claim_one(lease.id).await;
        assert_eq!(scene.get(id).await.attempts[0].worker, kept);
        h.advance(TTL).await;
        let lost = one(scene.store.lost(9).await.expect("lost jobs can be read"));
        assert_eq!((lost.id, &lost.worker), (id, &kept));
        scene.store.reap([stalled(&lost)].into()).await.expect("reaping is answered");
        assert_eq!(scene.get(id).await.attempts[0].worker, kept);
        scene.delete(id).await;
    }
}

/// A closed lease is over: one without jobs is forgotten, one with jobs leaves them to be reaped at once.
pub async fn a_closed_lease_is_over(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let idle = scene.lease().await;
    scene.store.close(idle).await.expect("a lease closes");
    assert_eq!(find(&scene, idle).await, None);
    assert_eq!(renew(&scene, idle).await, Renewal::Lost);

    let job = scene.running(Options::new()).await;
    let busy = scene.store.leases(1).await.expect("leases can be listed")[0].id;
    scene.store.close(busy).await.expect("a lease closes");
    let record = find(&scene, busy).await.expect("a lease stays as long as jobs hang on it");
    assert!(record.is_lost);
    assert_eq!(renew(&scene, busy).await, Renewal::Lost);
    let answer = scene.store.claim(request(busy, 1)).await.expect("a claim is answered");
    assert_eq!(answer, ClaimAnswer::LeaseLost);
    assert_eq!(scene.store.lost(9).await.expect("lost jobs can be read")[0].id, job.id);
    for lease in [busy, idle, LeaseId::new()] {
        scene.store.close(lease).await.expect("closing again is nothing");
    }
}

/// A sweep forgets leases that have run out and that no job hangs on, up to its limit.
pub async fn a_sweep_forgets_idle_lost_leases(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    for _ in 0..3 {
        scene.lease().await;
    }
    let sweep = async |limit| scene.store.sweep(limit).await.expect("a sweep is answered").leases;
    assert_eq!(sweep(9).await, 0, "none has run out");
    h.advance(TTL).await;
    let living = scene.lease().await;
    assert_eq!(sweep(0).await, 0);
    assert_eq!(sweep(2).await, 2);
    assert_eq!(sweep(9).await, 1);
    assert_eq!(scene.store.leases(9).await.expect("leases can be listed").len(), 2);
    scene.settle(&job, Outcome::Returned).await;
    assert_eq!(sweep(9).await, 1);
    let left = scene.store.leases(9).await.expect("leases can be listed");
    assert_eq!(left.iter().map(|record| record.id).collect::<Vec<_>>(), [living]);
}

/// A lease of no length is lost from the start, and one of endless length does not overflow.
pub async fn extreme_lengths_are_fine(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let open = async |ttl| {
        let lease = NewLease {
            id: LeaseId::new(),
            worker: String::new(),
            ttl,
            queues: Vec::new(),
            kinds: Vec::new(),
        };
        scene.store.open(&lease).await.expect("a lease opens");
        lease.id
    };
    let (none, endless) = (open(Duration::ZERO).await, open(Duration::MAX).await);
    assert_eq!(renew(&scene, none).await, Renewal::Lost);
    h.advance(seconds(1_000)).await;
    let answer = scene.store.renew(endless, Duration::MAX, 9).await.expect("a renewal is answered");
    assert_eq!(answer, alive());
}

/// What a claim took is found by its lease and nonce, in the queues that are named, up to a limit; looking changes
/// nothing.
pub async fn a_claim_is_found_by_its_nonce(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(4).await;
    scene.add(Options::new().queue("other")).await;
    let (lease, another) = (scene.lease().await, scene.lease().await);
    let queues = vec![share(QUEUE, 2), share("other", 2)];
    let first = ClaimRequest { queues: queues.clone(), ..request(lease, 2) };
    let (mine, _) = scene.ask(&first).await;
    let second = ClaimRequest { queues, ..request(lease, 9) };
    scene.ask(&second).await;
    let held = async |lease, nonce, queues: &[&str], limit| {
        let queues: Vec<_> = queues.iter().map(|queue| name(queue)).collect();
        scene
            .store
            .held(lease, nonce, queues.as_slice().into(), limit)
            .await
            .expect("what is held can be read")
    };
    let both = [QUEUE, "other"];
    let mut found = held(lease, first.nonce, &both, 9).await;
    found.sort_by_key(|job| job.id);
    let mut expected: Vec<_> = mine.iter().map(|job| (job.id, job.fence, job.queue.clone())).collect();
    expected.sort_by_key(|job| job.0);
    let seen: Vec<_> = found.iter().map(|job| (job.id, job.fence, job.queue.clone())).collect();
    assert_eq!(seen, expected);
    assert!(found.iter().all(|job| !job.has_begun && job.worker == "worker"));
    assert_eq!(held(lease, second.nonce, &both, 9).await.len(), 3);
    assert_eq!(held(lease, second.nonce, &both, 1).await.len(), 1);
    assert_eq!(held(lease, second.nonce, &["other"], 9).await.len(), 1);
    assert_eq!(held(lease, second.nonce, &[], 9).await, []);
    assert_eq!(held(lease, second.nonce, &both, 0).await, []);
    assert_eq!(held(another, first.nonce, &both, 9).await, []);
    assert_eq!(held(LeaseId::new(), first.nonce, &both, 9).await, []);
    scene.begin(&mine[0]).await;
    scene.settle(&mine[1], completed()).await;
    let left = one(held(lease, first.nonce, &both, 9).await);
    assert_eq!((left.id, left.has_begun), (mine[0].id, true), "what has ended is not held");
}

/// What a claim took whose answer was lost goes back at once, in its place and without a trace on its counters,
/// while the lease and what else hangs on it live on.
pub async fn what_a_lost_claim_took_is_given_back(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    let living = scene.add(Options::new()).await;
    let living = (living, scene.claim_one(lease).await);
    let all = scene.add_many(3).await;
    let unheard = request(lease, 3);
    scene.ask(&unheard).await;
    let held = scene.store.held(lease, unheard.nonce, [name(QUEUE)].into(), 9).await.expect("it can be read");
    assert_eq!(held.len(), 3);
    for job in &held {
        assert_eq!(job.outcome(), Outcome::Returned);
        assert_eq!(scene.settle_raw(taken_back(job)).await, Settled::Applied(State::Ready));
    }
    let again = scene.claim(lease, 9).await;
    assert_eq!(ids(&again), all, "in their order");
    assert!(again.iter().all(|job| (job.facts.counters.attempt, job.facts.counters.stalls) == (1, 0)));
    assert_eq!(scene.settle(&living.1, completed()).await, State::Completed);
    assert_eq!(renew(&scene, lease).await, alive());
    scene.assert_counts().await;
}
