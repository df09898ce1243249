//! Jobs that ended, in the order in which they did.

use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{Amended, EndPlace, Ended, PAGE_MAX};
use windlass_core::{JobId, Options, State};

use crate::Harness;
use crate::scene::{QUEUE, Scene, completed, failed_for_good, job, jobs, name, seconds, settlement};

async fn ended(scene: &Scene, state: State, after: EndPlace, limit: u32) -> Vec<Ended> {
    scene.store.ended(&name(QUEUE), state, after, limit).await.expect("ended jobs can be listed")
}

async fn ids(scene: &Scene, state: State, after: EndPlace) -> Vec<JobId> {
    ended(scene, state, after, 100).await.into_iter().map(|ended| ended.id).collect()
}

/// They come in the order of their ends, with the instants that their records have, each state and queue for itself.
pub async fn by_their_ends(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(scene.running(Options::new()).await);
    }
    let order = [&running[2], &running[0], &running[3]];
    for job in order {
        h.advance(seconds(1)).await;
        scene.settle(job, failed_for_good()).await;
    }
    scene.settle(&running[1], completed()).await;
    let dead = ended(&scene, State::Dead, EndPlace::START, 100).await;
    assert_eq!(dead.iter().map(|ended| ended.id).collect::<Vec<_>>(), order.map(|job| job.id));
    for Ended { id, place } in &dead {
        assert_eq!(scene.get(*id).await.finished_at, Some(place.at));
    }
    assert_eq!(ids(&scene, State::Completed, EndPlace::START).await, [running[1].id]);
    for state in [State::Cancelled, State::Running, State::Ready] {
        assert_eq!(ids(&scene, state, EndPlace::START).await, []);
    }
    let elsewhere = scene.store.ended(&name("elsewhere"), State::Dead, EndPlace::START, 9).await;
    assert_eq!(elsewhere.expect("an unknown queue is empty"), []);
    assert_eq!(ids(&scene, State::Dead, EndPlace::since(dead[1].place.at)).await, [order[1].id, order[2].id]);
    assert_eq!(ids(&scene, State::Dead, dead[2].place).await, [], "no more than there are");
}

/// Pages make up the whole, also where many ended at once.
pub async fn pages_make_up_the_whole(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    let all = jobs(25);
    scene.store.enqueue(all.clone().into()).await.expect("they are accepted");
    let claimed = scene.claim(lease, 25).await;
    let ends: Vec<_> = claimed.iter().map(|job| settlement(job, failed_for_good())).collect();
    scene.store.settle(ends.into()).await.expect("they end together");
    h.advance(seconds(1)).await;
    let last = scene.finished(Options::new(), failed_for_good()).await;
    let expected: Vec<_> = all.iter().map(|job| job.id).chain([last]).collect();
    for limit in [1, 4, 25, 26, PAGE_MAX + 1] {
        let (mut found, mut after) = (Vec::new(), EndPlace::START);
        loop {
            let page = ended(&scene, State::Dead, after, limit).await;
            assert!(page.len() <= limit as usize);
            let Some(end) = page.last() else { break };
            after = end.place;
            found.extend(page.into_iter().map(|ended| ended.id));
        }
        assert_eq!(found, expected, "in pages of {limit}");
    }
    assert_eq!(ended(&scene, State::Dead, EndPlace::START, 0).await, []);
}

/// What is sent back, removed or pruned leaves the order; what ends again gets another place.
pub async fn what_goes_leaves_the_order(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(scene.finished(Options::new(), failed_for_good()).await);
        h.advance(seconds(1)).await;
    }
    assert_eq!(scene.retry(all[0]).await, Amended::Done(State::Ready));
    assert_eq!(scene.delete(all[1]).await, Amended::Done(State::Dead));
    assert_eq!(ids(&scene, State::Dead, EndPlace::START).await, all[2..]);
    let again = scene.claim_one(scene.lease().await).await;
    scene.settle(&again, failed_for_good()).await;
    assert_eq!(ids(&scene, State::Dead, EndPlace::START).await, [all[2], all[3], all[0]]);
    let retention = Retention { dead: Keep::count(1), ..Retention::default() };
    let config = QueueConfig { retention, ..QueueConfig::default() };
    scene.store.define(&name(QUEUE), &config).await.expect("a definition is stored");
    scene.store.prune(9).await.expect("pruning is answered");
    assert_eq!(ids(&scene, State::Dead, EndPlace::START).await, [all[0]]);
}

/// What is cancelled, or expires before it starts, ended as well.
pub async fn every_end_has_a_place(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let withdrawn = scene.add(Options::new()).await;
    scene.cancel(withdrawn).await;
    assert_eq!(ids(&scene, State::Cancelled, EndPlace::START).await, [withdrawn]);
    let late = job(Options::new().expires_in(seconds(5)));
    let expired = late.id;
    scene.store.enqueue([late].into()).await.expect("it is accepted");
    h.advance(seconds(5)).await;
    scene.store.promote(9).await.expect("promoting is answered");
    assert_eq!(ids(&scene, State::Dead, EndPlace::START).await, [expired]);
    scene.finished(Options::new(), completed()).await;
    assert_eq!(ids(&scene, State::Completed, EndPlace::START).await.len(), 1);
}
