//! A job that this program cannot read harms no other: it is left alone if a newer program may read it, else set aside by
//! its fence, and named.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "harness/two_queues.rs"]
mod two_queues;

use std::time::Duration;

use two_queues::{Claimed, Scene, TTL, ids, job, name, settlement};
use windlass_core::job::Unreadable;
use windlass_core::outcome::Reason;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{Amended, Begin, Filter, Inspect, Jobs, Leases, Maintenance, Queues, Settled};
use windlass_core::{NewJob, Options, State};

/// The first bytes of forms that this program does not know.
const STRANGE: [u8; 3] = [b'd', 0, 240 + 2];

#[tokio::test]
async fn a_job_of_an_unknown_form_keeps_its_place_and_others_pass_it() {
    let scene = Scene::new().await;
    for (form, priority) in STRANGE.into_iter().flat_map(|form| [(form, 0), (form, 3)]) {
        let options = || Options::new().priority(priority);
        let strange = scene.add("bad", options()).await;
        let others = [scene.add("bad", options()).await, scene.add("good", options()).await];
        let before = scene.put(strange, 1, form);
        let stored = scene.record(strange);
        for limit in [1, 9] {
            let claimed = scene.claim(limit).await;
            assert_eq!((claimed.jobs.len(), claimed.unreadable, claimed.sick), (1, vec![], vec![]), "{form}");
            assert!(others.contains(&claimed.jobs[0].id), "{form}");
        }
        assert_eq!(scene.claim(9).await.jobs, []);
        assert_eq!(scene.record(strange), stored, "nobody has touched it");
        scene.put(strange, 1, before);
        scene.know_parked();
        assert_eq!(ids(&scene.claim(9).await.jobs), [strange], "its place is still there");
        let counts = scene.store.queues(None, 9).await.unwrap();
        assert_eq!(counts.iter().map(|queue| queue.counts.of(State::Ready)).sum::<u64>(), 0, "{form}");
    }
}

/// A program that knows the form takes it before all that came later, wherever it stood.
#[tokio::test]
async fn a_job_of_a_form_that_another_program_knows_keeps_its_turn() {
    let scene = Scene::new().await;
    for priority in [0, 3, -3] {
        let options = || Options::new().priority(priority);
        let strange = scene.add("bad", options()).await;
        let before = scene.put(strange, 1, b'd');
        assert_eq!(scene.claim(1).await.jobs, [], "it is parked");
        let later = scene.add("bad", options()).await;
        let first = scene.add("bad", Options::new().priority(priority + 1)).await;
        scene.put(strange, 1, before);
        scene.know_parked();
        assert_eq!(ids(&scene.claim(9).await.jobs), [first, strange, later], "{priority}");
    }
    assert_nothing_is_parked(&scene);
}

/// Also its priority, where jobs stand in several orders that are merged.
#[tokio::test]
async fn a_parked_job_keeps_its_priority_beside_other_orders() {
    let scene = Scene::new().await;
    let strange = scene.add("bad", Options::new().priority(3)).await;
    let before = scene.put(strange, 1, b'd');
    let lower = scene.add("bad", Options::new().priority(1)).await;
    let plain = scene.add("bad", Options::new()).await;
    assert_eq!(ids(&scene.claim(1).await.jobs), [lower]);
    scene.put(strange, 1, before);
    scene.know_parked();
    let middle = scene.add("bad", Options::new().priority(2)).await;
    assert_eq!(ids(&scene.claim(9).await.jobs), [strange, middle, plain]);
}

/// A program puts back what it asks for, however many of other kinds were parked before: more than one script looks at.
#[tokio::test]
async fn parked_jobs_of_one_kind_do_not_hold_up_those_of_another() {
    let scene = Scene::new().await;
    let of_kind = |kind: &str| NewJob::new(kind, "payload", Options::new().queue("bad")).unwrap();
    let (mut jobs, last): (Vec<_>, _) = ((0..1_500).map(|_| of_kind("k")).collect(), of_kind("l"));
    jobs.push(last.clone());
    scene.store.enqueue(jobs.as_slice().into()).await.unwrap();
    scene.eval(&become_form("A", "d"), last.id, &[]);
    while !scene.claim_kinds(9, &["k", "l"]).await.jobs.is_empty() {}
    assert_eq!(scene.server.command(&["HGET", &scene.key("meta"), "parked"]), "1501");
    scene.eval(&become_form("d", "A"), last.id, &[]);
    scene.know_parked();
    assert_eq!(ids(&scene.claim_kinds(1, &["l"]).await.jobs), [last.id]);
    let expected: Vec<_> = jobs[..9].iter().map(|job| job.id).collect();
    assert_eq!(ids(&scene.claim_kinds(9, &["k"]).await.jobs), expected);
}

/// What a program that knows it has done to it meanwhile is not undone.
#[tokio::test]
async fn a_parked_job_that_has_gone_does_not_come_back() {
    let scene = Scene::new().await;
    let strange = scene.add("bad", Options::new()).await;
    let before = scene.put(strange, 1, b'd');
    assert_eq!(scene.claim(1).await.jobs, []);
    scene.put(strange, 1, before);
    assert_eq!(scene.store.delete([strange].into()).await.unwrap(), [Amended::Done(State::Ready)]);
    scene.know_parked();
    assert_eq!(scene.claim(9).await.jobs, []);
    assert_nothing_is_parked(&scene);
}

#[tokio::test]
async fn a_job_of_an_unknown_form_is_shown_and_left_alone() {
    let scene = Scene::new().await;
    let other = scene.add("bad", Options::new()).await;
    let strange = scene.add("bad", Options::new()).await;
    let form = 240 + 2;
    scene.put(strange, 1, form);
    let stored = scene.record(strange);
    let refused = [Amended::Refused(State::Ready)];
    assert_eq!(scene.store.cancel([strange].into()).await.unwrap(), refused);
    assert_eq!(scene.store.retry([strange].into()).await.unwrap(), refused);
    assert_eq!(scene.store.delete([strange].into()).await.unwrap(), refused);
    let again = job("bad", Options::new()).with_id(strange);
    let error = scene.store.enqueue([again].into()).await.unwrap_err();
    assert!(error.to_string().contains("does not know"), "{error}");
    assert_eq!(scene.record(strange), stored);
    let newer = Some(Unreadable::Newer { form: form.into() });
    let record = scene.get(strange).await;
    assert_eq!((record.id, &record.unreadable, record.state), (strange, &newer, State::Ready));
    for (filter, expected) in [
        (Filter::default(), vec![strange, other]),
        (Filter { state: Some(State::Ready), ..Filter::default() }, vec![strange, other]),
        (Filter { state: Some(State::Dead), ..Filter::default() }, vec![]),
    ] {
        let jobs = scene.store.list(&filter, None, 9).await.unwrap().jobs;
        let mut listed: Vec<_> = jobs.iter().map(|job| job.id).collect();
        listed.sort_by_key(|id| expected.iter().position(|expected| expected == id));
        assert_eq!(listed, expected, "{filter:?}");
    }
}

/// A time that comes is no reason to touch it, and holds up nobody else.
#[tokio::test]
async fn the_time_of_a_job_of_an_unknown_form_passes_without_harm() {
    let scene = Scene::new().await;
    let second = Duration::from_secs(1);
    let delayed = || Options::new().delay(second);
    let expiring = || Options::new().expires_in(second);
    let strange = [scene.add("bad", delayed()).await, scene.add("bad", expiring()).await];
    let others = [scene.add("bad", delayed()).await, scene.add("bad", expiring()).await];
    let forms = strange.map(|id| scene.put(id, 1, b'd'));
    let stored = strange.map(|id| scene.record(id));
    scene.clock.advance(second);
    assert_eq!(ids(&scene.claim(9).await.jobs), [others[0]]);
    assert_eq!(scene.get(others[1]).await.reason, Some(Reason::Expired));
    scene.store.promote(9).await.unwrap();
    assert_eq!(strange.map(|id| scene.record(id)), stored);
    for (id, form) in strange.into_iter().zip(forms) {
        scene.put(id, 1, form);
    }
    scene.clock.advance(TTL / 2);
    assert_eq!(ids(&scene.claim(9).await.jobs), [strange[0]], "its turn has come");
    assert_eq!(scene.get(strange[1]).await.reason, Some(Reason::Expired), "its time is over");
}

#[tokio::test]
async fn pruning_passes_jobs_of_an_unknown_form() {
    let scene = Scene::new().await;
    let ended: Vec<_> = (0..150).map(|_| job("bad", Options::new())).collect();
    scene.store.enqueue(ended.as_slice().into()).await.unwrap();
    let ids: Vec<_> = ended.iter().map(|job| job.id).collect();
    scene.store.cancel(ids.as_slice().into()).await.unwrap();
    for id in &ids[..120] {
        scene.put(*id, 1, b'd');
    }
    let retention = Retention { cancelled: Keep::NONE, ..Retention::default() };
    let config = QueueConfig { retention, ..QueueConfig::default() };
    scene.store.define(&name("bad"), &config).await.unwrap();
    assert_eq!(scene.store.prune(1_000).await.unwrap(), 30);
    assert_eq!(scene.server.command(&["ZCARD", &scene.key("cancelled")]), "120", "they keep their places");
    assert_eq!(scene.store.prune(1_000).await.unwrap(), 0);
}

/// What a job has that its form does not: a flag, a policy that nobody knows.
#[tokio::test]
async fn a_job_that_does_not_read_is_set_aside_by_its_fence() {
    let scene = Scene::new().await;
    let broken = scene.add("bad", Options::new()).await;
    let good = [scene.add("bad", Options::new()).await, scene.add("good", Options::new()).await];
    // The last byte of what was handed in says what else follows.
    let last = scene.record(broken).len() / 2;
    scene.put(broken, last, 64);
    let Claimed { jobs, unreadable, sick } = scene.claim(9).await;
    assert_eq!((ids(&jobs), sick), (good.to_vec(), vec![]));
    assert_eq!((unreadable.len(), unreadable[0].id), (1, broken));
    let record = scene.get(broken).await;
    assert!(matches!(record.unreadable, Some(Unreadable::Broken(_))), "{record:?}");
    assert_eq!(
        scene.store.settle([settlement(&unreadable[0])].into()).await.unwrap(),
        [Settled::Applied(State::Dead)]
    );
    assert_eq!(scene.get(broken).await.reason, Some(Reason::Unreadable));
    assert_eq!(scene.store.list(&Filter::default(), None, 9).await.unwrap().jobs.len(), 3);
    assert_eq!(scene.store.delete([broken].into()).await.unwrap(), [Amended::Done(State::Dead)]);
}

#[tokio::test]
async fn a_reaper_takes_back_what_does_not_read_and_all_else() {
    let scene = Scene::new().await;
    let jobs: Vec<_> = (0..3).map(|_| job("bad", Options::new())).collect();
    scene.store.enqueue(jobs.as_slice().into()).await.unwrap();
    let claimed = scene.claim(9).await.jobs;
    // What follows the record of a first attempt is the label of its worker: two bytes of length, and the label.
    let last = scene.record(jobs[1].id).len() / 2 - 3;
    scene.put(jobs[1].id, last, 64);
    let begun = Begin { queue: name("bad"), id: claimed[2].id, fence: claimed[2].fence };
    assert_eq!(scene.store.begin([begun].into()).await.unwrap(), [Settled::Applied(State::Running)]);
    scene.clock.advance(TTL);
    let mut lost = scene.store.lost(9).await.unwrap();
    lost.sort_by_key(|lost| jobs.iter().position(|job| job.id == lost.id));
    let wrong: Vec<_> = lost.iter().map(|job| job.unreadable.is_some()).collect();
    assert_eq!(wrong, [false, true, false]);
    let reaped = scene.store.reap(lost.iter().map(settlement).collect::<Vec<_>>().into()).await.unwrap();
    let states = [State::Ready, State::Dead, State::Scheduled];
    assert_eq!(reaped, states.map(Settled::Applied), "not begun, unreadable, stalled");
}

/// More of them than one script looks at.
#[tokio::test]
async fn jobs_behind_many_of_an_unknown_form_are_reached() {
    let scene = Scene::new().await;
    let many: Vec<_> = (0..2_500).map(|_| job("bad", Options::new().priority(3))).collect();
    scene.store.enqueue(many.as_slice().into()).await.unwrap();
    assert_eq!(scene.eval(&become_form("A", "d"), many[0].id, &[]), "2500");
    let others = [scene.add("bad", Options::new()).await, scene.add("bad", Options::new()).await];
    assert_eq!(ids(&scene.claim(9).await.jobs), others);
    assert_eq!(scene.claim(9).await.jobs, []);
    let after = scene.add("bad", Options::new()).await;
    assert_eq!(ids(&scene.claim(9).await.jobs), [after], "and they hold up none that comes later");
    assert_eq!(scene.server.command(&["ZCARD", &scene.key("parked:k")]), "2500");
    scene.eval(&become_form("d", "A"), many[0].id, &[]);
    scene.know_parked();
    assert_eq!(scene.claim(3_000).await.jobs.len(), 2_500, "a program that knows them finds them all");
}

/// The list of kinds that have something is made from them if it is lost.
#[tokio::test]
async fn jobs_are_found_without_the_list_of_kinds() {
    let scene = Scene::new().await;
    let waiting =
        [scene.add("bad", Options::new().priority(1)).await, scene.add("bad", Options::new()).await];
    scene.server.command(&["DEL", &scene.key("kinds")]);
    assert_eq!(ids(&scene.claim(1).await.jobs), waiting[..1]);
    let is_listed = |member: &str| scene.server.command(&["SISMEMBER", &scene.key("kinds"), member]) == "1";
    assert!(is_listed("k") && is_listed("!k") && !is_listed(""), "what was found, and not that it is all");
    assert_eq!(ids(&scene.claim(9).await.jobs), waiting[1..]);
    assert!(is_listed(""), "by then it is");
}

/// Also when jobs of another kind have come since, and are in the list again.
#[tokio::test]
async fn jobs_of_other_kinds_are_found_when_the_list_of_kinds_was_lost() {
    let scene = Scene::new().await;
    let of_kind = |kind: &str| NewJob::new(kind, "payload", Options::new().queue("bad")).unwrap();
    let [before, parked, later] = ["k", "l", "m"].map(of_kind);
    scene.store.enqueue([before.clone(), parked.clone()].into()).await.unwrap();
    let form = scene.put(parked.id, 1, b'd');
    assert_eq!(scene.claim_kinds(9, &["l"]).await.jobs, []);
    scene.put(parked.id, 1, form);
    scene.know_parked();
    scene.server.command(&["DEL", &scene.key("kinds")]);
    scene.store.enqueue([later.clone()].into()).await.unwrap();
    assert_eq!(scene.claim_kinds(9, &["n"]).await.jobs, []);
    assert_eq!(ids(&scene.claim_kinds(9, &["l"]).await.jobs), [parked.id]);
    assert_eq!(ids(&scene.claim_kinds(9, &["k"]).await.jobs), [before.id]);
    assert_eq!(ids(&scene.claim_kinds(9, &["m"]).await.jobs), [later.id]);
    assert_nothing_is_parked(&scene);
}

/// The list says that it is complete again when all that is ready is listed, whatever is asked for.
#[tokio::test]
async fn a_list_of_kinds_that_has_all_is_complete() {
    let scene = Scene::new().await;
    let waiting = scene.add("bad", Options::new().priority(1)).await;
    scene.server.command(&["SREM", &scene.key("kinds"), ""]);
    assert_eq!(scene.claim_kinds(9, &["other"]).await.jobs, []);
    assert_eq!(scene.server.command(&["SISMEMBER", &scene.key("kinds"), ""]), "1");
    assert_eq!(ids(&scene.claim(9).await.jobs), [waiting]);
}

/// Gives all records of queue `bad` that have one form another, as a script.
fn become_form(from: &str, to: &str) -> String {
    format!(
        "local ids = redis.call('HKEYS', KEYS[1]) for _, id in ipairs(ids) do redis.call('HSET', KEYS[1], id, \
         (string.gsub(redis.call('HGET', KEYS[1], id), '^{from}', '{to}'))) end return #ids"
    )
}

fn assert_nothing_is_parked(scene: &Scene) {
    let keys = ["parked:k", "parked:l", "stale"].map(|key| scene.key(key));
    assert_eq!(scene.server.command(&["EXISTS", &keys[0], &keys[1], &keys[2]]), "0");
    assert_eq!(scene.server.command(&["HGET", &scene.key("meta"), "parked"]), "0");
}
