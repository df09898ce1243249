//! People look through jobs: by filter, in pages, while the store goes on changing.

use std::collections::HashSet;

use windlass_core::job::NewJob;
use windlass_core::store::{Cursor, Filter, PAGE_MAX, SCAN_MAX};
use windlass_core::{JobId, JobRecord, Options, State, StoreError, StoreErrorKind};

use crate::Harness;
use crate::scene::{Scene, completed, failed_for_good, name, seconds};

fn ids(jobs: &[JobRecord]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Reads in pages of this size, and lets something happen between two pages.
async fn read_in_pages(
    scene: &Scene,
    filter: &Filter,
    limit: u32,
    mut between: impl AsyncFnMut(&[JobRecord]),
) -> Vec<JobRecord> {
    let (mut found, mut after): (Vec<JobRecord>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = scene.store.list(filter, after.as_ref(), limit).await.expect("jobs can be listed");
        assert!(page.jobs.len() <= limit as usize);
        found.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            return found;
        }
        between(&found).await;
    }
}

/// A list shows jobs as they are, without their attempts, in every state.
pub async fn shows_jobs_as_they_are(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.finished(Options::new(), failed_for_good()).await;
    scene.finished(Options::new(), completed()).await;
    scene.running(Options::new()).await;
    scene.add(Options::new().tag("t")).await;
    scene.add(Options::new().delay(seconds(5))).await;
    let listed = scene.list(&Filter::default()).await;
    assert_eq!(listed.len(), 5);
    for job in listed {
        let expected = JobRecord { attempts: Vec::new(), ..scene.get(job.id).await };
        assert_eq!(job, expected);
    }
}

/// The states of jobs are those that a look at each of them shows, in the order of the question, whatever its size.
pub async fn states_are_those_of_the_jobs(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.finished(Options::new(), failed_for_good()).await;
    scene.finished(Options::new(), completed()).await;
    scene.cancel(scene.add(Options::new()).await).await;
    scene.running(Options::new()).await;
    scene.add(Options::new().queue("other")).await;
    scene.add(Options::new().delay(seconds(5))).await;
    scene.add_many(300).await;
    let mut wanted = ids(&scene.list(&Filter::default()).await);
    wanted.insert(3, JobId::new());
    wanted.push(wanted[0]);
    let mut expected = Vec::new();
    for &id in &wanted {
        expected.push(scene.find(id).await.map(|job| job.state));
    }
    let states = scene.store.states(wanted.into()).await.expect("states can be read");
    assert_eq!(states, expected);
}

/// Everything that a filter sets must hold.
pub async fn heeds_its_filter(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut all = Vec::new();
    for queue in ["a", "b"] {
        for kind in ["k", "l"] {
            for tags in [&[][..], &["x"], &["x", "y"]] {
                let options = tags.iter().fold(Options::new().queue(queue), |options, tag| options.tag(*tag));
                let new = NewJob::new(kind, "", options).expect("a proper job");
                all.push(new.clone());
                scene.enqueue(new).await;
            }
        }
    }
    scene.cancel(all[0].id).await;
    scene.cancel(all[11].id).await;
    let options = |values: &[&'static str]| {
        [None].into_iter().chain(values.iter().map(|value| Some(name(value)))).collect::<Vec<_>>()
    };
    for queue in options(&["a", "b", "none"]) {
        for kind in options(&["k", "none"]) {
            for tag in options(&["x", "y", "none"]) {
                for state in [None, Some(State::Ready), Some(State::Cancelled), Some(State::Dead)] {
                    let filter = Filter { queue: queue.clone(), kind: kind.clone(), tag: tag.clone(), state };
                    let expected = all.iter().rev().filter(|job| {
                        let is_cancelled = job.id == all[0].id || job.id == all[11].id;
                        let now = if is_cancelled { State::Cancelled } else { State::Ready };
                        queue.as_ref().is_none_or(|queue| *queue == job.queue)
                            && kind.as_ref().is_none_or(|kind| *kind == job.kind)
                            && tag.as_ref().is_none_or(|tag| job.tags.contains(tag))
                            && state.is_none_or(|state| state == now)
                    });
                    let expected: Vec<_> = expected.map(|job| job.id).collect();
                    assert_eq!(ids(&scene.list(&filter).await), expected, "{filter:?}");
                }
            }
        }
    }
}

/// Pages of any size together are the whole list, each job once, newest first.
pub async fn pages_make_up_the_whole(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut expected = scene.add_many(23).await;
    expected.reverse();
    for limit in [1, 2, 7, 22, 23, 24, PAGE_MAX, u32::MAX] {
        let found = read_in_pages(&scene, &Filter::default(), limit, async |_| {}).await;
        assert_eq!(ids(&found), expected, "pages of {limit}");
    }
}

/// A limit of nothing is an empty last page; more than a page can hold is cut.
pub async fn limits_are_heeded(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(PAGE_MAX as usize + 1).await;
    let page = scene.store.list(&Filter::default(), None, 0).await.expect("jobs can be listed");
    assert_eq!((page.jobs.len(), page.next), (0, None));
    let page = scene.store.list(&Filter::default(), None, u32::MAX).await.expect("jobs can be listed");
    assert_eq!(page.jobs.len(), PAGE_MAX as usize);
    let page = scene.store.list(&Filter::default(), page.next.as_ref(), 9).await.expect("jobs can be listed");
    assert_eq!((page.jobs.len(), page.next), (1, None));
}

/// Jobs that come between two pages do not show up late, and make no other job appear twice.
pub async fn jobs_may_come_between_pages(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut expected = scene.add_many(30).await;
    expected.reverse();
    let found = read_in_pages(&scene, &Filter::default(), 4, async |_| {
        scene.add_many(3).await;
    })
    .await;
    assert_eq!(ids(&found), expected);
}

/// Jobs that go between two pages, even the last one seen, leave no gap.
pub async fn jobs_may_go_between_pages(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let all = scene.add_many(40).await;
    let mut removed = HashSet::new();
    let found = read_in_pages(&scene, &Filter::default(), 5, async |found| {
        let last = found[found.len() - 1].id;
        let position = all.iter().position(|id| *id == last).expect("it was enqueued");
        // The last that was seen, one seen long ago, and the next but one.
        for id in [Some(position), Some(position + 4), position.checked_sub(2)].into_iter().flatten() {
            scene.delete(all[id]).await;
            if id < position {
                removed.insert(all[id]);
            }
        }
    })
    .await;
    let found = ids(&found);
    let expected: Vec<_> = all.iter().rev().copied().filter(|id| !removed.contains(id)).collect();
    assert_eq!(found, expected);
    assert!(removed.len() > 5);
}

/// Jobs that change their state between two pages are found by what they are when their page is read, and
/// move no other.
pub async fn jobs_may_change_between_pages(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let all = scene.add_many(40).await;
    let lease = scene.lease().await;
    let filter = Filter { state: Some(State::Ready), ..Filter::default() };
    // Claims take the oldest, which come last in the list: they leave before their page is read.
    let found = read_in_pages(&scene, &filter, 5, async |_| {
        scene.claim(lease, 2).await;
    })
    .await;
    let found = ids(&found);
    let newest_first: Vec<_> = all.iter().rev().copied().collect();
    assert_eq!(found, newest_first[..found.len()], "each job that stayed ready, once");
    for unseen in &newest_first[found.len()..] {
        assert_eq!(scene.state(*unseen).await, State::Running, "left out although it stayed ready");
    }
    assert!(found.len() < 35, "claims between the pages took some away");
}

/// A page may end before it is full, but one match among very many is found in the end.
pub async fn a_rare_match_is_found(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let rare = scene.add(Options::new().tag("rare")).await;
    for _ in 0..=SCAN_MAX / 1_000 {
        scene.add_many(1_000).await;
    }
    let filter = Filter { tag: Some(name("rare")), ..Filter::default() };
    assert_eq!(ids(&scene.list(&filter).await), [rare]);
}

/// A cursor that no store made is refused, and says so.
pub async fn a_bad_cursor_is_refused(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(3).await;
    for text in ["", "no cursor", "💥", "1; drop table jobs", "\0", "999999999999999999999999999999999999x"]
    {
        let cursor = Cursor(text.to_owned());
        let error = scene
            .store
            .list(&Filter::default(), Some(&cursor), 9)
            .await
            .expect_err("a bad cursor is refused");
        assert!(matches!(&error, StoreError::Cursor { cursor } if cursor == text), "{error}");
        assert_eq!(error.kind(), StoreErrorKind::Refused);
    }
}

/// A cursor works with another filter and another page size, for it is a position.
pub async fn a_cursor_is_a_position(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for index in 0..20 {
        let queue = if index % 2 == 0 { "even" } else { "odd" };
        scene.add(Options::new().queue(queue)).await;
    }
    let all = ids(&scene.list(&Filter::default()).await);
    let page = scene.store.list(&Filter::default(), None, 6).await.expect("jobs can be listed");
    let next = page.next.expect("more jobs follow");
    let even = Filter { queue: Some(name("even")), ..Filter::default() };
    let rest = scene.store.list(&even, Some(&next), 100).await.expect("jobs can be listed");
    let expected: Vec<_> = all.iter().skip(6).skip(1).step_by(2).copied().collect();
    assert_eq!(ids(&rest.jobs), expected);
}
