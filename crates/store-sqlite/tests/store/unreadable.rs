//! A row that this program cannot read harms only itself: others are claimed, reaped, listed and pruned, and the row
//! is named.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, params};
use tempfile::TempDir;
use windlass_core::job::{LostJob, Unreadable};
use windlass_core::outcome::{Ending, Outcome, Reason};
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{
    Amended, ClaimAnswer, Filter, Inspect, Jobs, Leases, Maintenance, Queues, Settled, Settlement,
};
use windlass_core::{JobId, NewJob, Options, State, judge};
use windlass_store_sqlite::SqliteStore;

use super::{completed, job, lease, lease_for, name, open, request};

struct Scene {
    store: SqliteStore,
    connection: Connection,
    _directory: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path: PathBuf = directory.path().join("jobs.db");
        let store = open(&path).await;
        Self { store, connection: Connection::open(&path).unwrap(), _directory: directory }
    }

    /// Five jobs, of which the first is changed as said.
    async fn jobs(&self, change: &str) -> Vec<NewJob> {
        let jobs: Vec<_> = (0..5).map(|number| job(number.to_string())).collect();
        self.store.enqueue(jobs.as_slice().into()).await.unwrap();
        self.change(jobs[0].id, change);
        jobs
    }

    fn change(&self, id: JobId, change: &str) {
        let sql = format!("UPDATE windlass_jobs SET {change} WHERE id = ?1");
        assert_eq!(self.connection.execute(&sql, params![id.as_bytes()]).unwrap(), 1);
    }
}

/// What a newer program, a stray hand or a broken disk may have left.
const BROKEN: [&str; 6] = [
    r#"spec = '{"v":1,"retry":{"attempts":3,"backoff":"lunar"}}'"#,
    "tags = 'no list'",
    "payload = NULL",
    "priority = 99999",
    "stalls = -1",
    r#"spec = '{"v":1,"stalls_max":1099511627776}'"#,
];

fn by_fence(job: &LostJob) -> Settlement {
    let transition = judge(&job.facts, job.outcome(), 0.5);
    Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
}

#[tokio::test]
async fn a_claim_hands_out_the_others_and_the_row_is_set_aside_by_its_fence() {
    for change in BROKEN {
        let scene = Scene::new().await;
        let jobs = scene.jobs(change).await;
        let lease = lease(&scene.store).await;
        let answer = scene.store.claim(request(lease, 9)).await.unwrap();
        let ClaimAnswer::Jobs { jobs: good, unreadable, .. } = answer else { panic!("the lease lives") };
        assert_eq!(good.len(), 4, "{change}");
        let [bad] = unreadable.as_slice() else { panic!("{change}: one does not read: {unreadable:?}") };
        assert_eq!((bad.id, bad.fence.number, bad.fence.nonce), (jobs[0].id, 1, good[0].fence.nonce));
        assert!(matches!(bad.unreadable, Some(Unreadable::Broken(_))), "{change}: {bad:?}");
        assert!(matches!(bad.outcome(), Outcome::Unreadable { .. }));
        let settled = scene.store.settle(completed(&good).into()).await.unwrap();
        assert_eq!(settled, [Settled::Applied(State::Completed); 4]);
        assert_eq!(
            scene.store.settle([by_fence(bad)].into()).await.unwrap(),
            [Settled::Applied(State::Dead)]
        );
        let record = scene.store.get([bad.id].into()).await.unwrap().remove(0).unwrap();
        assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::Unreadable)), "{change}");
        assert_eq!(record.attempts[0].ending, Some(Ending::Unreadable));
    }
}

#[tokio::test]
async fn a_reaper_and_a_list_see_the_others_and_name_the_row() {
    for change in BROKEN {
        let scene = Scene::new().await;
        let jobs = scene.jobs("state = state").await;
        let lease = lease_for(&scene.store, Duration::from_secs(60)).await;
        scene.store.claim(request(lease, 9)).await.unwrap();
        scene.change(jobs[0].id, change);
        scene.store.close(lease).await.unwrap();
        let lost = scene.store.lost(9).await.unwrap();
        assert_eq!(lost.len(), 5, "{change}");
        let page = scene.store.list(&Filter::default(), None, 9).await.unwrap();
        let bad: Vec<_> = page.jobs.iter().filter(|job| job.unreadable.is_some()).collect();
        assert_eq!((page.jobs.len(), bad.len(), bad[0].id), (5, 1, jobs[0].id), "{change}");
        let reaped = scene.store.reap(lost.iter().map(by_fence).collect::<Vec<_>>().into()).await.unwrap();
        assert!(reaped.iter().all(|settled| matches!(settled, Settled::Applied(_))), "{change}: {reaped:?}");
        assert_eq!(scene.store.lost(9).await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_row_of_a_newer_form_is_left_to_a_newer_program() {
    let scene = Scene::new().await;
    let jobs = scene.jobs("form = 99, spec = 'of another kind'").await;
    let lease = lease(&scene.store).await;
    let answer = scene.store.claim(request(lease, 9)).await.unwrap();
    let ClaimAnswer::Jobs { jobs: good, unreadable, .. } = answer else { panic!("the lease lives") };
    assert_eq!((good.len(), unreadable.len()), (4, 0), "it is not touched");
    let record = scene.store.get([jobs[0].id].into()).await.unwrap().remove(0).unwrap();
    assert_eq!((record.state, record.fence), (State::Ready, 0));
    assert_eq!(record.unreadable, Some(Unreadable::Newer { form: 99 }));
    // A newer program took it and died: it goes back without a trace.
    scene.change(good[0].id, "form = 99");
    scene.store.close(lease).await.unwrap();
    let lost = scene.store.lost(9).await.unwrap();
    let newer = lost.iter().find(|job| job.id == good[0].id).unwrap();
    assert_eq!(
        (&newer.unreadable, newer.outcome()),
        (&Some(Unreadable::Newer { form: 99 }), Outcome::Returned)
    );
    assert_eq!(scene.store.reap([by_fence(newer)].into()).await.unwrap(), [Settled::Applied(State::Ready)]);
}

#[tokio::test]
async fn a_row_without_a_proper_id_ends_in_the_claim() {
    let scene = Scene::new().await;
    scene.jobs("id = x'0102'").await;
    let lease = lease(&scene.store).await;
    for expected in [4, 0] {
        let answer = scene.store.claim(request(lease, 9)).await.unwrap();
        let ClaimAnswer::Jobs { jobs, unreadable, .. } = answer else { panic!("the lease lives") };
        assert_eq!((jobs.len(), unreadable.len()), (expected, 0));
    }
    let dead = Filter { state: Some(State::Dead), ..Filter::default() };
    let page = scene.store.list(&dead, None, 9).await.unwrap();
    assert_eq!(page.jobs[0].reason, Some(Reason::Unreadable));
    assert!(page.jobs[0].unreadable.is_some());
}

#[tokio::test]
async fn a_record_of_an_attempt_that_does_not_read_is_shown_as_far_as_it_does() {
    let scene = Scene::new().await;
    let jobs = scene.jobs("state = state").await;
    let lease = lease(&scene.store).await;
    let ClaimAnswer::Jobs { jobs: claimed, .. } = scene.store.claim(request(lease, 1)).await.unwrap() else {
        panic!("the lease lives")
    };
    let returned = Settlement {
        transition: judge(&claimed[0].facts, Outcome::Returned, 0.5),
        ..completed(&claimed).remove(0)
    };
    scene.store.settle([returned].into()).await.unwrap();
    scene.connection.execute("UPDATE windlass_attempts SET ending = 'evaporated'", []).unwrap();
    let record = scene.store.get([jobs[0].id].into()).await.unwrap().remove(0).unwrap();
    assert_eq!((record.attempts.len(), record.attempts[0].ending), (1, None));
    assert!(record.attempts[0].error.as_ref().is_some_and(|error| error.contains("evaporated")));
}

#[tokio::test]
async fn a_definition_that_does_not_read_keeps_its_own_queue_only() {
    let scene = Scene::new().await;
    let retention = Retention { cancelled: Keep::NONE, ..Retention::default() };
    let config = QueueConfig { retention, ..QueueConfig::default() };
    let (mut sick, mut well) = (Vec::new(), Vec::new());
    for (queue, jobs) in [("sick", &mut sick), ("well", &mut well)] {
        scene.store.define(&name(queue), &config).await.unwrap();
        let job = NewJob::new("greet", "x", Options::new().queue(queue)).unwrap();
        scene.store.enqueue([job.clone()].into()).await.unwrap();
        jobs.push(job.id);
    }
    let sql = "UPDATE windlass_queues SET config = '{\"retention\":7}' WHERE name = 'sick'";
    scene.connection.execute(sql, []).unwrap();
    let both = [sick[0], well[0]];
    assert_eq!(scene.store.cancel(both.into()).await.unwrap(), [Amended::Done(State::Cancelled); 2]);
    assert_eq!(scene.store.prune(9).await.unwrap(), 1, "what the other queue does not keep");
    let left: Vec<_> = scene.store.get(both.into()).await.unwrap().iter().map(Option::is_some).collect();
    assert_eq!(left, [true, false]);
    let queues = scene.store.queues(None, 9).await.unwrap();
    let unreadable: Vec<_> =
        queues.iter().map(|queue| (queue.name.as_str(), queue.unreadable.is_some())).collect();
    assert_eq!(unreadable, [("sick", true), ("well", false)]);
    let job = NewJob::new("greet", "y", Options::new().queue("sick")).unwrap();
    scene.store.enqueue([job].into()).await.unwrap();
}
