//! Lines of fresh jobs: what leaves one otherwise than by a claim is never handed out, never holds up what comes after
//! it, and does not stay for ever. And wrong content under a key stops a script before it has written anything.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::ManualClock;
use windlass_core::outcome::Failure;
use windlass_core::queue::{Keep, QueueConfig};
use windlass_core::store::{
    Amended, ClaimAnswer, ClaimRequest, Enqueued, Inspect, Jobs, Leases, Maintenance, NewLease, QueueShare,
    Queues, Settled, Settlement,
};
use windlass_core::{ClaimedJob, JobId, LeaseId, Name, NewJob, Options, Outcome, State, judge};
use windlass_store_testkit::servers::RedisServer;

use crate::connect::Call;
use crate::{RedisOptions, RedisStore, answer};

const SECOND: Duration = Duration::from_secs(1);

/// A store in a namespace that no other test uses, with a lease on its one queue.
struct Scene {
    store: RedisStore,
    clock: ManualClock,
    lease: LeaseId,
}

impl Scene {
    async fn new() -> Self {
        let (clock, lease) = (ManualClock::default(), LeaseId::new());
        let options = RedisOptions::parse(RedisServer::shared().url()).unwrap();
        let options = options.namespace(&format!("lines-{:x}", fastrand::u64(..))).unwrap();
        let store = RedisStore::open_with(options.clock(Arc::new(clock.clone()))).await.unwrap();
        let queues = vec![name("q")];
        store
            .open(&NewLease { id: lease, worker: "w".into(), ttl: 3600 * SECOND, queues, kinds: Vec::new() })
            .await
            .unwrap();
        Self { store, clock, lease }
    }

    async fn add(&self, count: usize, options: Options) -> Vec<JobId> {
        let jobs: Vec<_> = (0..count).map(|_| job(options.clone())).collect();
        for jobs in jobs.chunks(1_000) {
            assert!(
                self.store.enqueue(jobs.into()).await.unwrap().iter().all(|answer| *answer == Enqueued::New)
            );
        }
        jobs.iter().map(|job| job.id).collect()
    }

    async fn claim(&self, limit: u32, kinds: &[&str]) -> Vec<ClaimedJob> {
        let request = ClaimRequest {
            lease: self.lease,
            nonce: windlass_core::Fence::nonce(),
            queues: vec![QueueShare { queue: name("q"), limit }],
            kinds: kinds.iter().map(|kind| name(kind)).collect(),
            limit,
            at_once: limit,
            bytes: usize::MAX,
        };
        match self.store.claim(request.clone()).await.unwrap() {
            ClaimAnswer::Jobs { jobs, .. } => jobs,
            ClaimAnswer::LeaseLost => panic!("the lease lives"),
        }
    }

    async fn claimed(&self, limit: u32) -> Vec<JobId> {
        self.claim(limit, &["k"]).await.iter().map(|job| job.id).collect()
    }

    /// What a command about a key of the queue answers.
    async fn ask(&self, command: &str, key: &str, more: &[&str]) -> i64 {
        let (mut ask, key, more) = (redis::cmd(command), key.to_owned(), more.join(" "));
        let asked = self.store.remote.call(Call::WRITE, async move |tools, session| {
            let prefix = tools.keys.queue(&name("q")).meta();
            let prefix = std::str::from_utf8(&prefix).unwrap().trim_end_matches("meta").to_owned();
            ask.arg(prefix + &key);
            more.split_whitespace().for_each(|word| {
                ask.arg(word);
            });
            match session.command(ask).await? {
                redis::Value::Okay | redis::Value::Nil => Ok(0),
                value => answer::integer(value),
            }
        });
        asked.await.unwrap()
    }

    async fn count(&self, state: State) -> u64 {
        let queues = self.store.queues(None, 9).await.unwrap();
        queues.iter().map(|queue| queue.counts.of(state)).sum()
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn job(options: Options) -> NewJob {
    NewJob::new("k", "{}", options.queue("q")).unwrap()
}

#[tokio::test]
async fn what_left_a_line_is_not_handed_out() {
    let scene = Scene::new().await;
    let ids = scene.add(4, Options::new()).await;
    let expiring = scene.add(1, Options::new().expires_in(SECOND)).await;
    let last = scene.add(1, Options::new()).await;
    assert_eq!(scene.ask("LLEN", "line:k", &[]).await, 6, "fresh jobs stand in a line");
    scene.store.cancel((&ids[..1]).into()).await.unwrap();
    scene.store.delete((&ids[1..2]).into()).await.unwrap();
    scene.clock.advance(SECOND);
    assert_eq!(scene.claimed(1).await, ids[2..3]);
    assert_eq!(scene.claimed(9).await, [ids[3], last[0]]);
    assert_eq!(
        scene.store.get(expiring.as_slice().into()).await.unwrap()[0].as_ref().unwrap().state,
        State::Dead
    );
    assert_eq!(scene.ask("EXISTS", "line:k", &[]).await + scene.ask("EXISTS", "stale", &[]).await, 0);
    assert_eq!((scene.count(State::Ready).await, scene.count(State::Running).await), (0, 3));
}

#[tokio::test]
async fn a_removed_id_that_comes_again_stands_where_it_came_again() {
    let scene = Scene::new().await;
    let first = job(Options::new());
    scene.store.enqueue([first.clone()].into()).await.unwrap();
    let between = scene.add(1, Options::new()).await;
    scene.store.delete([first.id].into()).await.unwrap();
    scene.store.enqueue([first.clone()].into()).await.unwrap();
    assert_eq!(scene.claimed(9).await, [between[0], first.id]);
    assert_eq!(scene.store.list(&Default::default(), None, 9).await.unwrap().jobs.len(), 2);
}

#[tokio::test]
async fn a_job_that_stands_twice_at_one_place_is_handed_out_once() {
    let scene = Scene::new().await;
    // Cancelled and sent back within one instant: in the zset it has the place that it left in the line.
    let ids = scene.add(3, Options::new()).await;
    scene.store.cancel((&ids[1..2]).into()).await.unwrap();
    assert_eq!(scene.store.retry((&ids[1..2]).into()).await.unwrap(), [Amended::Done(State::Ready)]);
    assert_eq!((scene.ask("LLEN", "line:k", &[]).await, scene.ask("ZCARD", "ready:k", &[]).await), (3, 1));
    assert_eq!(scene.claimed(9).await, ids);
    assert_eq!(scene.claimed(9).await, []);
    assert_eq!((scene.count(State::Ready).await, scene.count(State::Running).await), (0, 3));
}

#[tokio::test]
async fn the_second_place_of_a_job_that_is_gone_is_not_one_of_the_job_that_took_its_id() {
    let scene = Scene::new().await;
    let mut config = QueueConfig::default();
    config.retention.completed = Keep::NONE;
    scene.store.define(&name("q"), &config).await.unwrap();
    let first = job(Options::new());
    scene.store.enqueue([first.clone()].into()).await.unwrap();
    scene.store.cancel([first.id].into()).await.unwrap();
    scene.store.retry([first.id].into()).await.unwrap();
    // Taken from the line; the claim ends before it meets the same place in the zset.
    let claimed = scene.claim(1, &["k"]).await;
    assert_eq!(scene.ask("ZCARD", "ready:k", &[]).await, 1);
    let done = settlement(&claimed[0], Outcome::Completed { output: None });
    assert_eq!(scene.store.settle([done].into()).await.unwrap(), [Settled::Applied(State::Completed)]);
    let between = scene.add(1, Options::new()).await;
    scene.store.enqueue([first.clone()].into()).await.unwrap();
    assert_eq!(scene.claimed(9).await, [between[0], first.id]);
    assert_eq!((scene.count(State::Ready).await, scene.count(State::Running).await), (0, 2));
}

#[tokio::test]
async fn thousands_that_left_do_not_hold_up_the_one_that_is_left() {
    let scene = Scene::new().await;
    let gone = scene.add(3_000, Options::new()).await;
    let last = scene.add(1, Options::new()).await;
    for ids in gone.chunks(250) {
        scene.store.cancel(ids.into()).await.unwrap();
    }
    assert_eq!(scene.ask("HGET", "stale", &["k"]).await, 3_000);
    assert_eq!(scene.claimed(1).await, last);
    assert_eq!(scene.ask("EXISTS", "line:k", &[]).await + scene.ask("EXISTS", "stale", &[]).await, 0);
}

#[tokio::test]
async fn maintenance_clears_a_line_that_holds_little_else() {
    let scene = Scene::new().await;
    let ids = scene.add(3_000, Options::new()).await;
    let (gone, kept): (Vec<_>, Vec<_>) = ids.iter().enumerate().partition(|(place, _)| place % 10 > 0);
    let gone: Vec<_> = gone.into_iter().map(|(_, id)| *id).collect();
    for ids in gone.chunks(250) {
        scene.store.delete(ids.into()).await.unwrap();
    }
    for _ in 0..12 {
        scene.store.promote(1).await.unwrap();
    }
    let left = scene.ask("HGET", "stale", &["k"]).await;
    assert!(left <= 1_000, "{left} stale members are left");
    assert!(scene.ask("LLEN", "line:k", &[]).await <= 2 * 1_000);
    let kept: Vec<_> = kept.into_iter().map(|(_, id)| *id).collect();
    let mut claimed = Vec::new();
    for _ in 0..10 {
        claimed.extend(scene.claimed(100).await);
    }
    assert_eq!(claimed, kept, "in their turn, wherever they stand now");
    assert_eq!(scene.ask("EXISTS", "stale", &[]).await, 0);
}

#[tokio::test]
async fn lines_and_zsets_of_several_kinds_make_one_order() {
    let scene = Scene::new().await;
    let mut expected = Vec::new();
    for place in 0..120 {
        let kind = ["k", "l", "m"][place % 3];
        let priority = if place % 7 == 0 { 1 } else { 0 };
        let new = NewJob::new(kind, "{}", Options::new().queue("q").priority(priority)).unwrap();
        scene.store.enqueue([new.clone()].into()).await.unwrap();
        expected.push((-priority, place, new.id));
        if place % 5 == 0 {
            scene.clock.advance(SECOND);
        }
    }
    expected.sort_unstable();
    let mut claimed = Vec::new();
    for limit in [1, 50, 3, 99] {
        claimed.extend(scene.claim(limit, &["m", "k", "l"]).await.into_iter().map(|job| job.id));
    }
    assert_eq!(claimed, expected.iter().map(|(_, _, id)| *id).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_returned_job_goes_before_the_line() {
    let scene = Scene::new().await;
    let ids = scene.add(3, Options::new()).await;
    let claimed = scene.claim(2, &["k"]).await;
    let back = Settlement {
        queue: name("q"),
        id: claimed[1].id,
        fence: claimed[1].fence,
        transition: judge(&claimed[1].facts, Outcome::Returned, 0.0),
    };
    assert_eq!(scene.store.settle([back].into()).await.unwrap(), [Settled::Applied(State::Ready)]);
    scene.add(1, Options::new()).await;
    assert_eq!(scene.claimed(2).await, ids[1..]);
}

#[tokio::test]
async fn wrong_content_under_a_key_stops_a_script_before_it_writes() {
    for key in
        ["line:k", "ready:k", "expiring", "scheduled", "jobs", "leases", "kinds", "parked:k", "uniques"]
    {
        let scene = Scene::new().await;
        // One in the line and one in the zset, so that both are read.
        let before = scene.add(1, Options::new()).await;
        let unique = windlass_core::unique::Unique::key("u").until_start();
        scene.add(1, Options::new().priority(-1).unique(unique)).await;
        scene.ask("HSET", "meta", &["parked", "1"]).await;
        let lost = scene.ask("EXISTS", key, &[]).await;
        scene.ask("DEL", key, &[]).await;
        scene.ask("SET", key, &["5"]).await;
        let request = ClaimRequest {
            lease: scene.lease,
            nonce: windlass_core::Fence::nonce(),
            queues: vec![QueueShare { queue: name("q"), limit: 9 }],
            kinds: vec![name("k")],
            limit: 9,
            at_once: 9,
            bytes: 9,
        };
        assert!(scene.store.claim(request.clone()).await.is_err(), "{key} was {lost}");
        assert_eq!(scene.count(State::Running).await, 0, "{key}");
        scene.ask("DEL", key, &[]).await;
        if key != "jobs" {
            assert_eq!(
                scene.store.get(before.as_slice().into()).await.unwrap()[0].as_ref().unwrap().state,
                State::Ready,
                "{key}"
            );
        }
    }
}

fn settlement(job: &ClaimedJob, outcome: Outcome) -> Settlement {
    let transition = judge(&job.facts, outcome, 0.0);
    Settlement { queue: name("q"), id: job.id, fence: job.fence, transition }
}

#[tokio::test]
async fn ends_of_all_sorts_in_one_call_are_answered_in_their_order() {
    for keep in [Keep::count(100), Keep::NONE] {
        let scene = Scene::new().await;
        let mut config = QueueConfig::default();
        config.retention.completed = keep;
        scene.store.define(&name("q"), &config).await.unwrap();
        scene.add(10, Options::new()).await;
        let mut jobs = scene.claim(5, &["k"]).await;
        let back = settlement(&jobs.remove(0), Outcome::Returned);
        scene.store.settle([back].into()).await.unwrap();
        jobs.extend(scene.claim(6, &["k"]).await);
        scene.store.cancel([jobs[1].id].into()).await.unwrap();
        let done = |job: &ClaimedJob| settlement(job, Outcome::Completed { output: None });
        let output = Outcome::Completed { output: Some("7".into()) };
        let failure = || Failure::error("wrong");
        let mut late = done(&jobs[3]);
        late.fence.nonce ^= 1;
        let mut gone = done(&jobs[0]);
        gone.id = JobId::new();
        let call = [
            done(&jobs[9]),
            late,
            settlement(&jobs[0], output),
            settlement(&jobs[1], Outcome::Retry { failure: failure() }),
            done(&jobs[2]),
            gone,
            settlement(&jobs[3], Outcome::Fail { failure: failure() }),
            // The second attempt of the one that went back.
            done(&jobs[4]),
            settlement(&jobs[5], Outcome::Snooze { after: SECOND }),
            done(&jobs[6]),
        ];
        let completed = Settled::Applied(State::Completed);
        let expected = [
            completed,
            Settled::Fenced,
            completed,
            Settled::Applied(State::Cancelled),
            completed,
            Settled::Fenced,
            Settled::Applied(State::Dead),
            completed,
            Settled::Applied(State::Scheduled),
            completed,
        ];
        assert_eq!(scene.store.settle(call.clone().into()).await.unwrap(), expected);
        assert_eq!(
            scene.store.settle(call.clone().into()).await.unwrap(),
            [Settled::Fenced; 10],
            "each counts once"
        );
        let kept = scene.store.get(jobs.iter().map(|job| job.id).collect::<Vec<_>>().into()).await.unwrap();
        let states: Vec<_> = kept.iter().map(|job| job.as_ref().map(|job| job.state)).collect();
        let ended = (keep != Keep::NONE).then_some(State::Completed);
        let (running, scheduled) = (Some(State::Running), Some(State::Scheduled));
        assert_eq!(states[..4], [ended, Some(State::Cancelled), ended, Some(State::Dead)]);
        assert_eq!(states[4..], [ended, scheduled, ended, running, running, ended]);
        let counts = (scene.count(State::Running).await, scene.count(State::Completed).await);
        assert_eq!(counts, (2, if ended.is_some() { 5 } else { 0 }));
        if let Some(first) = &kept[0] {
            assert_eq!((first.output.as_deref(), first.fence), (Some(&b"7"[..]), 1));
            assert_eq!((first.counters.attempt, first.finished_at.is_some()), (1, true));
        }
    }
}
