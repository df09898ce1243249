//! Two handles on the same content, as two processes have them, see one store.

use std::collections::HashSet;

use windlass_core::bell::Topic;
use windlass_core::queue::QueueConfig;
use windlass_core::size::Caps;
use windlass_core::store::{Amended, Enqueued, Renewal, Settled, SharedStore};
use windlass_core::{Options, State};

use super::wakeup::assert_rung;
use crate::Harness;
use crate::report::say_skipped;
use crate::scene::{
    QUEUE, Scene, TTL, claim_at_once, completed, job, name, one, request, settlement, stalled,
};

/// A scene and another one on the same content, where the store has such a thing.
async fn both(h: &impl Harness) -> Option<(Scene, Scene)> {
    let first = Scene::new(h).await;
    let Some(store): Option<SharedStore> = h.another(&first.store).await else {
        say_skipped("handles", "this store has no second handle on the same content");
        return None;
    };
    Some((first, Scene { store }))
}

/// What one handle accepts the other one has, and neither takes an id twice.
pub async fn see_the_same_jobs(h: &impl Harness) {
    let Some((here, there)) = both(h).await else { return };
    let new = job(Options::new());
    here.enqueue(new.clone()).await;
    assert_eq!(there.get(new.id).await, here.get(new.id).await);
    let again = there.store.enqueue([new.clone()].into()).await.expect("a repeat is answered");
    assert_eq!(again, [Enqueued::Existing(State::Ready)]);
    let config = QueueConfig { caps: Caps { payload: 1, ..Caps::default() }, ..QueueConfig::default() };
    here.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    there.store.enqueue([job(Options::new())].into()).await.expect_err("the cap holds for every handle");
    there.assert_counts().await;
}

/// Claims through both handles hand out each job once.
pub async fn share_out_the_jobs(h: &impl Harness) {
    let Some((here, there)) = both(h).await else { return };
    here.add_many(200).await;
    let handed_out = claim_at_once(&[&here, &there, &here, &there], |lease| request(lease, 3)).await;
    assert_eq!(handed_out.len(), 200);
    assert_eq!(handed_out.into_iter().collect::<HashSet<_>>().len(), 200);
}

/// A job that was claimed here can be settled, cancelled and reaped there, under the same fence.
pub async fn heed_the_same_fences(h: &impl Harness) {
    let Some((here, there)) = both(h).await else { return };
    here.add_many(2).await;
    let lease = here.lease().await;
    let jobs = here.claim(lease, 2).await;
    assert_eq!(there.settle_raw(settlement(&jobs[0], completed())).await, Settled::Applied(State::Completed));
    assert_eq!(here.settle_raw(settlement(&jobs[0], completed())).await, Settled::Fenced);
    assert_eq!(there.cancel(jobs[1].id).await, Amended::Done(State::Running));
    let renewal = here.store.renew(lease, TTL, 9).await.expect("a renewal is answered");
    assert_eq!(renewal, Renewal::Renewed { cancel: vec![(jobs[1].id, jobs[1].fence)], lost: Vec::new() });
    h.advance(TTL).await;
    let lost = one(there.store.lost(9).await.expect("lost jobs can be read"));
    let answer = one(there.store.reap([stalled(&lost)].into()).await.expect("reaping is answered"));
    assert_eq!(answer, Settled::Applied(State::Cancelled));
    assert_eq!(here.settle_raw(settlement(&jobs[1], completed())).await, Settled::Fenced);
}

/// What happens through one handle rings at the other.
pub async fn hear_each_other(h: &impl Harness) {
    let Some((here, there)) = both(h).await else { return };
    let mut work = there.store.bell().listen(Topic::Work);
    here.add(Options::new()).await;
    assert_rung(&mut work, "an enqueue through the other handle").await;
    let claimed = there.claim_one(there.lease().await).await;
    let mut cancel = there.store.bell().listen(Topic::Cancel);
    here.cancel(claimed.id).await;
    assert_rung(&mut cancel, "a request to cancel through the other handle").await;
    let mut finish = here.store.bell().listen(Topic::Finish);
    there.settle(&claimed, completed()).await;
    assert_rung(&mut finish, "an end through the other handle").await;
}
