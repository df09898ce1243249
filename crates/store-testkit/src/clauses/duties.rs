//! What one worker of a fleet does for all: one holder has a duty at a time, and none keeps it by being gone.

use futures_util::future::join_all;
use windlass_core::HolderId;
use windlass_core::store::{Duty, Shift};

use crate::Harness;
use crate::scene::{Scene, seconds};

async fn take(scene: &Scene, duty: Duty, holder: HolderId, ttl: u64) -> Shift {
    scene.store.take_duty(duty, holder, seconds(ttl)).await.expect("asking for a duty is answered")
}

/// Another holder is told how long it lasts; each duty is for itself.
pub async fn one_holder_has_a_duty(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let (first, second) = (HolderId::new(), HolderId::new());
    assert_eq!(take(&scene, Duty::Reap, first, 100).await, Shift::Own);
    h.advance(seconds(40)).await;
    let Shift::Other(left) = take(&scene, Duty::Reap, second, 100).await else { panic!("it is taken") };
    assert!(left > seconds(0) && left <= seconds(60), "{left:?}");
    assert_eq!(take(&scene, Duty::Prune, second, 100).await, Shift::Own);
    assert_eq!(take(&scene, Duty::Reap, first, 100).await, Shift::Own, "it is kept");
    h.advance(seconds(80)).await;
    assert!(matches!(take(&scene, Duty::Reap, second, 100).await, Shift::Other(_)), "it was kept for longer");
}

/// A holder that is gone, or stopped, loses it; when it comes back, it is told so.
pub async fn a_duty_that_ran_out_goes_to_the_next(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let (first, second) = (HolderId::new(), HolderId::new());
    assert_eq!(take(&scene, Duty::Promote, first, 100).await, Shift::Own);
    h.advance(seconds(101)).await;
    assert_eq!(take(&scene, Duty::Promote, second, 100).await, Shift::Own);
    assert!(matches!(take(&scene, Duty::Promote, first, 100).await, Shift::Other(_)));
}

/// A holder with longer pauses, or a clock that was set, does not keep others from working.
pub async fn a_duty_that_lasts_too_long_is_taken(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let (first, second) = (HolderId::new(), HolderId::new());
    assert_eq!(take(&scene, Duty::Prune, first, 10_000).await, Shift::Own);
    assert_eq!(take(&scene, Duty::Prune, second, 100).await, Shift::Own);
    assert!(matches!(take(&scene, Duty::Prune, first, 10_000).await, Shift::Other(_)));
}

/// Only the holder gives it back.
pub async fn a_duty_is_given_back_by_its_holder(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let (first, second) = (HolderId::new(), HolderId::new());
    assert_eq!(take(&scene, Duty::Reap, first, 100).await, Shift::Own);
    assert_eq!(take(&scene, Duty::Prune, first, 100).await, Shift::Own);
    scene.store.leave_duty(Duty::Reap, second).await.expect("it is answered");
    assert!(
        matches!(take(&scene, Duty::Reap, second, 100).await, Shift::Other(_)),
        "it is not the second's to give"
    );
    scene.store.leave_duty(Duty::Reap, first).await.expect("it is given back");
    assert_eq!(take(&scene, Duty::Reap, second, 100).await, Shift::Own);
    assert!(
        matches!(take(&scene, Duty::Prune, second, 100).await, Shift::Other(_)),
        "the other one was kept"
    );
}

/// However many ask.
pub async fn of_many_at_once_one_has_it(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let holders: Vec<_> = (0..16).map(|_| HolderId::new()).collect();
    let shifts = join_all(holders.iter().map(|&holder| take(&scene, Duty::Reap, holder, 100))).await;
    assert_eq!(shifts.iter().filter(|shift| **shift == Shift::Own).count(), 1, "{shifts:?}");
}
