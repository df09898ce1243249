//! Aged priority: a level is worth a time, and nothing waits behind work that came much later.

use std::time::Duration;

use windlass_core::job::{ClaimedJob, NewJob};
use windlass_core::options::Due;
use windlass_core::queue::{Keep, KeyRules, LEVEL_WORTH_MAX, LEVELS_LOOKED_MAX, QueueConfig, Retention};
use windlass_core::store::{Amended, ClaimRequest, Enqueued};
use windlass_core::{JobId, LeaseId, Options, Outcome, State, StoreError};

use super::at_once::pair;
use super::keys::define;
use crate::Harness;
use crate::scene::{
    KIND, QUEUE, Scene, claim_at_once, completed, failed, failed_for_good, ids, job, name, request, seconds,
};

/// What a level is worth in most clauses.
const WORTH: Duration = seconds(10);
/// All that clauses place is due before this time has passed.
const SPAN: Duration = seconds(600);

fn aged(worth: Duration) -> QueueConfig {
    QueueConfig { aging: Some(worth), ..QueueConfig::default() }
}

/// Adds jobs in one call with a kind, a priority, a key and the second at which each is due, and lets that time pass.
async fn place(h: &impl Harness, scene: &Scene, jobs: &[(&str, i16, &str, u64)]) -> Vec<JobId> {
    let now = scene.store.now().await.expect("a store has a time");
    let new = |&(kind, priority, key, second): &(&str, i16, &str, u64)| {
        let options = Options::new().priority(priority);
        let options = if key.is_empty() { options } else { options.key(key) };
        let mut new = NewJob::new(kind, "{}", options).expect("a proper job");
        new.due = Due::At(now.plus(seconds(1 + second)));
        new
    };
    let jobs: Vec<_> = jobs.iter().map(new).collect();
    let answers = scene.store.enqueue(jobs.as_slice().into()).await.expect("proper jobs are accepted");
    assert_eq!(answers, vec![Enqueued::New; jobs.len()]);
    h.advance(SPAN).await;
    // A claim moves some of them only.
    while scene.count(QUEUE, State::Scheduled).await > 0 {
        scene.store.promote(1_000).await.expect("a promotion is answered");
    }
    jobs.iter().map(|job| job.id).collect()
}

/// As `place`, for jobs of the scene's kind, without a key.
async fn place_plain(h: &impl Harness, scene: &Scene, jobs: &[(i16, u64)]) -> Vec<JobId> {
    let jobs: Vec<_> = jobs.iter().map(|&(priority, second)| (KIND, priority, "", second)).collect();
    place(h, scene, &jobs).await
}

/// Those of the jobs that stand at these places, in this order.
fn at(jobs: &[JobId], places: &[usize]) -> Vec<JobId> {
    places.iter().map(|&place| jobs[place]).collect()
}

/// The jobs in the order in which claims of these sizes give them, of all kinds that clauses use.
async fn order(scene: &Scene, sizes: &[u32]) -> Vec<JobId> {
    let lease = scene.lease().await;
    let mut found = Vec::new();
    for &size in sizes {
        let kinds = [KIND, "k", "l", "m"].map(name).to_vec();
        found.extend(ids(&scene.ask(&ClaimRequest { kinds, ..request(lease, size) }).await.0));
    }
    found
}

/// Each level is worth the time that the definition says, in both directions, in claims of any size.
pub async fn a_level_is_worth_its_time(h: &impl Harness) {
    for sizes in [&[9, 9][..], &[1; 8], &[2, 1, 4, 9]] {
        let scene = Scene::new(h).await;
        define(&scene, aged(WORTH)).await;
        let jobs = [(0, 0), (3, 25), (2, 25), (1, 25), (0, 25), (-1, 0), (-1, 26), (0, 1)];
        let added = place_plain(h, &scene, &jobs).await;
        assert_eq!(order(&scene, sizes).await, at(&added, &[1, 0, 7, 2, 5, 3, 4, 6]), "{sizes:?}");
        scene.assert_counts().await;
    }
}

/// Jobs that are ready at once have the same order as those that waited for their time.
pub async fn fresh_jobs_have_the_same_order(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, aged(WORTH)).await;
    let mut added = Vec::new();
    for (priority, later) in [(0, 5), (1, 20), (1, 0), (0, 0), (5, 0)] {
        added.push(scene.add(Options::new().priority(priority)).await);
        h.advance(seconds(later)).await;
    }
    let mut soon = job(Options::new());
    soon.due = Due::After(seconds(1));
    added.push(scene.enqueue(soon).await);
    h.advance(seconds(2)).await;
    // Ranks of 0, -5, 15, 25, -25 and 26 seconds.
    assert_eq!(order(&scene, &[2, 9]).await, at(&added, &[4, 1, 0, 2, 3, 5]));
}

/// Of one rank the higher priority goes first, and of one level and instant what was accepted first.
pub async fn of_one_rank_the_higher_level_goes_first(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, aged(WORTH)).await;
    let jobs = [(0, 0), (1, 10), (2, 20), (2, 20), (1, 10), (-3, 0), (0, 30)];
    let added = place_plain(h, &scene, &jobs).await;
    assert_eq!(order(&scene, &[3, 9]).await, at(&added, &[2, 3, 1, 4, 0, 6, 5]));
}

/// A job of a low level waits behind no job that came later than the levels between them are worth, while more of a high
/// level come than are taken.
pub async fn nothing_waits_longer_than_its_bound(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, aged(seconds(5))).await;
    let low = scene.add(Options::new()).await;
    let due_at = scene.get(low).await.due_at;
    let mut before = Vec::new();
    for _ in 0..60 {
        scene.add(Options::new().priority(4)).await;
        scene.add(Options::new().priority(4)).await;
        let taken = scene.claim_one(scene.lease().await).await;
        if taken.id == low {
            break;
        }
        before.push(taken);
        h.advance(seconds(1)).await;
    }
    assert_eq!(scene.state(low).await, State::Running, "it has its turn");
    assert!(scene.count(QUEUE, State::Ready).await > 0, "while others of a higher level wait");
    let latest = before.iter().map(|job| job.due_at).max().expect("higher levels go first for a while");
    assert!(latest <= due_at.plus(seconds(20)), "{} after it", latest.since(due_at).as_secs_f64());
    assert!(before.len() >= 20, "{} came within the time that four levels are worth", before.len());
}

/// The whole range of priorities has its ranks.
pub async fn the_ends_of_the_range_have_their_ranks(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, aged(LEVEL_WORTH_MAX)).await;
    let jobs = [(i16::MIN, 0), (i16::MAX, 500), (0, 500), (i16::MIN, 1), (i16::MAX, 0), (0, 0)];
    let added = place_plain(h, &scene, &jobs).await;
    assert_eq!(order(&scene, &[9]).await, at(&added, &[4, 1, 5, 2, 0, 3]));
}

/// The order is one over all kinds that a claim asks for, and jobs of others are passed over.
pub async fn kinds_have_one_order(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, aged(WORTH)).await;
    let mut jobs = Vec::new();
    for number in 0..60_u64 {
        let (kind, priority) =
            (["k", "l", "m", "k"][number as usize % 4], [0, 2, 5, -1, 0][number as usize % 5]);
        jobs.push((kind, priority, "", number * 7 % 41));
    }
    let added = place(h, &scene, &jobs).await;
    let mut expected: Vec<_> = (0..jobs.len()).collect();
    expected.sort_by_key(|&place| {
        let (_, priority, _, second) = jobs[place];
        let second = i64::try_from(second).expect("it is small");
        (second - 10 * i64::from(priority), -priority, place)
    });
    let of = |kinds: &[&str]| {
        expected.iter().filter(|&&at| kinds.contains(&jobs[at].0)).copied().collect::<Vec<_>>()
    };
    let lease = scene.lease().await;
    let ask = async |kind: &str, limit| {
        let kinds = vec![name(kind)];
        ids(&scene.ask(&ClaimRequest { kinds, ..request(lease, limit) }).await.0)
    };
    let of_l = of(&["l"]);
    assert_eq!(ask("l", 9).await, at(&added, &of_l[..9]));
    assert_eq!(ask("l", 99).await, at(&added, &of_l[9..]));
    assert_eq!(order(&scene, &[1, 7, 20, 99]).await, at(&added, &of(&["k", "m"])));
    scene.assert_counts().await;
}

/// The definition at the time of the claim decides, also for what waited before.
pub async fn the_order_changes_with_the_definition(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let jobs = [(0, 0), (1, 15), (2, 40), (0, 5), (1, 16), (2, 41), (3, 300)];
    let added = place_plain(h, &scene, &jobs).await;
    define(&scene, aged(WORTH)).await;
    assert_eq!(order(&scene, &[2]).await, at(&added, &[0, 1]));
    define(&scene, QueueConfig::default()).await;
    assert_eq!(order(&scene, &[1]).await, at(&added, &[6]), "the higher level first again");
    define(&scene, aged(seconds(100))).await;
    assert_eq!(order(&scene, &[1]).await, at(&added, &[2]));
    define(&scene, aged(seconds(1))).await;
    assert_eq!(order(&scene, &[9]).await, at(&added, &[3, 4, 5]));
}

/// Among the jobs of one key the order is aged; between keys there are turns as ever.
pub async fn jobs_of_a_key_are_aged(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, QueueConfig { keys: Some(KeyRules::default()), ..aged(WORTH) }).await;
    let of_a = [("k", 0, "a", 0), ("l", 3, "a", 25), ("k", 2, "a", 25), ("m", 1, "a", 25), ("k", -1, "a", 0)];
    let jobs =
        [&of_a[..], &[("k", 9, "b", 0), ("k", 0, "b", 500), ("k", 0, "", 0), ("k", 1, "", 20)]].concat();
    let added = place(h, &scene, &jobs).await;
    let lease = scene.lease().await;
    let with = |nonce, kinds: &[&str], limit| ClaimRequest {
        nonce,
        kinds: kinds.iter().map(|kind| name(kind)).collect(),
        ..request(lease, limit)
    };
    assert_eq!(ids(&scene.ask(&with(11, &["k", "l", "m"], 4)).await.0), at(&added, &[1, 0, 5, 6]));
    assert_eq!(
        ids(&scene.ask(&with(11, &["k", "l"], 2)).await.0),
        at(&added, &[2, 4]),
        "another kind is passed over"
    );
    assert_eq!(ids(&scene.ask(&with(12, &["k", "l", "m"], 9)).await.0), at(&added, &[7, 8, 3]));
    scene.assert_counts().await;
}

/// Many jobs of one key, which no claim reads as a whole, have their order.
pub async fn many_jobs_of_a_key_are_aged(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, QueueConfig { keys: Some(KeyRules::default()), ..aged(WORTH) }).await;
    let jobs: Vec<_> =
        (0..400).map(|number| ("k", [0, 3, -2, 7][number % 4], "a", number as u64 * 13 % 97)).collect();
    let added = place(h, &scene, &jobs).await;
    let mut expected: Vec<_> = (0..jobs.len()).collect();
    expected
        .sort_by_key(|&place| (jobs[place].3 as i64 - 10 * i64::from(jobs[place].1), -jobs[place].1, place));
    assert_eq!(order(&scene, &[1, 5, 150, 40, 999]).await, at(&added, &expected));
}

/// What comes back has its place by its due instant: a new one after a delay, the same one if it is given back.
pub async fn what_comes_back_has_its_place(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, aged(WORTH)).await;
    let first = scene.add(Options::new().priority(1)).await;
    let lease = scene.lease().await;
    let taken = scene.claim_one(lease).await;
    assert_eq!(scene.settle(&taken, Outcome::Returned).await, State::Ready);
    h.advance(seconds(5)).await;
    let second = scene.add(Options::new().priority(1)).await;
    let low = scene.add(Options::new()).await;
    h.advance(seconds(2)).await;
    let taken = scene.claim_one(lease).await;
    assert_eq!(taken.id, first, "it kept its place");
    assert_eq!(scene.settle(&taken, failed()).await, State::Scheduled);
    h.advance(seconds(17)).await;
    let dead = scene.claim_one(lease).await;
    assert_eq!(dead.id, second);
    assert_eq!(scene.settle(&dead, failed_for_good()).await, State::Dead);
    assert_eq!(scene.retry(second).await, Amended::Done(State::Ready));
    // Ranks, by seconds since the first came: the first is due at 17 with a level, the second at 24 with a level, the low one
    // at 5 without.
    assert_eq!(ids(&scene.claim(scene.lease().await, 9).await), [low, first, second]);
}

/// A line with more levels than a claim looks at: each level has its claims, and the order is that of those looked at.
pub async fn many_levels_are_all_served(h: &impl Harness) {
    const LEVELS: usize = LEVELS_LOOKED_MAX + 50;
    for key in ["", "a"] {
        let scene = Scene::new(h).await;
        define(&scene, QueueConfig { keys: Some(KeyRules::default()), ..aged(Duration::from_millis(1)) })
            .await;
        // The lower ones came first, by more than all levels are worth.
        let second = |level| if level < 50 { 0 } else { 60 };
        let level = |level: usize| (KIND, i16::try_from(level).expect("it is small"), key, second(level));
        let jobs: Vec<_> = (0..LEVELS).map(level).collect();
        let added = place(h, &scene, &jobs).await;
        let lease = scene.lease().await;
        let with = |nonce, limit| ClaimRequest { nonce, ..request(lease, limit) };
        let offset = |offset: u64| offset << 16;
        let upper = ids(&scene.ask(&with(offset(0), 2)).await.0);
        assert_eq!(upper, at(&added, &[LEVELS - 1, LEVELS - 2]), "from the highest on, as far as it looks");
        // From level 7 on, and after the lowest from the highest on.
        let around = ids(&scene.ask(&with(offset(LEVELS as u64 - 3 - 7), 9)).await.0);
        assert_eq!(around, at(&added, &[7, 6, 5, 4, 3, 2, 1, 0, LEVELS - 3]));
        let mut found = [upper, around].concat();
        loop {
            let jobs = scene.claim(lease, 7).await;
            if jobs.is_empty() {
                break;
            }
            found.extend(ids(&jobs));
        }
        found.sort_unstable();
        let mut all = added;
        all.sort_unstable();
        assert_eq!(found, all, "each once");
        scene.assert_counts().await;
    }
}

/// A job that does not fit ends the claim, whatever stands in other levels.
pub async fn a_job_that_does_not_fit_ends_the_claim(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, aged(WORTH)).await;
    let mut sized = Vec::new();
    for (priority, bytes) in [(2, 100), (1, 100), (0, 500), (-1, 10)] {
        let new = NewJob::new(KIND, vec![b'x'; bytes], Options::new().priority(priority));
        sized.push(scene.enqueue(new.expect("a proper job")).await);
    }
    let lease = scene.lease().await;
    let taken = async |bytes| ids(&scene.ask(&ClaimRequest { bytes, ..request(lease, 9) }).await.0);
    assert_eq!(taken(300).await, sized[..2]);
    assert_eq!(taken(300).await, sized[2..3], "the first one always fits");
    assert_eq!(taken(300).await, sized[3..]);
}

/// Pauses, limits and ends are as ever.
pub async fn other_rules_hold_too(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let retention = Retention { completed: Keep::NONE, ..Retention::default() };
    define(&scene, QueueConfig { concurrency: Some(2), retention, ..aged(WORTH) }).await;
    let added = place_plain(h, &scene, &[(0, 0), (3, 25), (2, 25), (0, 25)]).await;
    let lease = scene.lease().await;
    let first: Vec<ClaimedJob> = scene.claim(lease, 9).await;
    assert_eq!(ids(&first), at(&added, &[1, 0]));
    assert_eq!(scene.claim(lease, 9).await, []);
    for job in &first {
        assert_eq!(scene.settle(job, completed()).await, State::Completed);
    }
    assert_eq!(ids(&scene.claim(lease, 9).await), at(&added, &[2, 3]));
    scene.assert_counts().await;
}

/// Claims at the same time hand out each job once, of every level.
pub async fn claims_at_once_share_out_the_levels(h: &impl Harness) {
    let (here, there) = pair(h).await;
    define(&here, aged(WORTH)).await;
    let jobs: Vec<_> = (0..200).map(|number| job(Options::new().priority(number % 9))).collect();
    here.store.enqueue(jobs.as_slice().into()).await.expect("proper jobs are accepted");
    let mut found = claim_at_once(&[&here, &there, &here, &there], |lease: LeaseId| request(lease, 3)).await;
    let mut expected: Vec<_> = jobs.iter().map(|job| job.id).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    here.assert_counts().await;
}

/// A worth outside of its range is refused; what is defined reads back.
pub async fn a_bad_worth_is_refused(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for bad in [Duration::ZERO, Duration::from_micros(999), LEVEL_WORTH_MAX + seconds(1), Duration::MAX] {
        let answer = scene.store.define(&name(QUEUE), &aged(bad)).await;
        assert!(matches!(answer, Err(StoreError::Queue(_))), "{answer:?}");
    }
    assert!(scene.store.queues(None, 9).await.expect("queues can be listed").is_empty());
    let good = aged(Duration::from_micros(1_500_000));
    define(&scene, good.clone()).await;
    assert_eq!(scene.store.queues(None, 9).await.expect("queues can be listed")[0].config, good);
}
