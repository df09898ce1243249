//! Rows that this program cannot read, of each kind one, among fifty that it can.

use windlass_core::JobId;
use windlass_core::job::Unreadable;
use windlass_core::outcome::Reason;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{Filter, Inspect, Jobs, Leases, Maintenance, Queues, Settled};
use windlass_core::{Name, Outcome, State};

use super::bench::{Bench, name, set_aside, settlement};

/// What can be wrong with a row of `jobs`, and a word by which it is named.
const WRONG: [(&str, &str); 6] = [
    ("tags = 'no name'", "no name"),
    ("spec = '{\"v\":1,\"retry\":{\"backoff\":{\"fibonacci\":1}}}'", "options"),
    ("spec = '{\"v\":1,\"stalls_max\":-1}'", "-1"),
    ("form = 9", "form 9"),
    ("form = 9, spec = 'of a form to come'", "form 9"),
    ("spec = 'no JSON'", "options"),
];

/// Fifty good jobs, one of each wrong kind between them, and a definition of another queue that does not read.
async fn spoiled() -> (Bench, Vec<JobId>) {
    let bench = Bench::new().await;
    bench.enqueue(25).await;
    let mut wrong = Vec::new();
    for (what, _) in WRONG {
        let job = bench.enqueue(1).await.remove(0);
        bench.psql(&format!("UPDATE jobs SET {what} WHERE id = '{}'", job.id));
        wrong.push(job.id);
    }
    bench.enqueue(25).await;
    bench.psql("INSERT INTO queues (name, config, payload_max) VALUES ('other', '{\"retention\":7}', 10)");
    bench.psql("UPDATE settings SET value = value + 1 WHERE name = 'definitions'");
    (bench, wrong)
}

/// Each of them is named in lists and by itself, with what is wrong.
async fn assert_named(bench: &Bench, wrong: &[JobId]) {
    let page = bench.store.list(&Filter::default(), None, 100).await.unwrap();
    assert_eq!(page.jobs.len(), 56);
    for (id, (_, word)) in wrong.iter().zip(WRONG) {
        let listed = page.jobs.iter().find(|job| job.id == *id).unwrap();
        let found = bench.store.get([*id].into()).await.unwrap().remove(0).unwrap();
        for record in [listed, &found] {
            let why = record.unreadable.as_ref().unwrap().to_string();
            assert!(why.contains(word), "{why}");
            assert_eq!((record.queue.as_str(), record.kind.as_str()), ("default", "k"));
        }
    }
    assert_eq!(page.jobs.iter().filter(|job| job.unreadable.is_none()).count(), 50);
}

#[tokio::test]
async fn a_claim_hands_out_what_reads_and_names_what_does_not() {
    let (bench, wrong) = spoiled().await;
    assert_named(&bench, &wrong).await;
    let (jobs, unreadable) = bench.claim_all().await;
    assert_eq!((jobs.len(), unreadable.len()), (50, 6));
    bench.complete(&jobs).await;
    let settlements: Vec<_> = unreadable.iter().map(set_aside).collect();
    let answers = bench.store.settle(settlements.as_slice().into()).await.unwrap();
    for (job, answer) in unreadable.iter().zip(answers) {
        let state = match job.unreadable.as_ref().unwrap() {
            Unreadable::Newer { form: 9 } => State::Ready,
            why => {
                assert!(matches!(why, Unreadable::Broken(_)), "{why}");
                State::Dead
            }
        };
        assert_eq!(answer, Settled::Applied(state));
        let record = bench.store.get([job.id].into()).await.unwrap().remove(0).unwrap();
        assert_eq!(record.reason, (state == State::Dead).then_some(Reason::Unreadable));
        assert_eq!((job.worker.as_str(), job.has_begun, job.fence.number), ("w", false, 1));
    }
    assert_named(&bench, &wrong).await;
    assert_eq!(bench.psql("SELECT sum(completed), sum(dead), sum(ready) FROM counts"), "50|4|2");
}

#[tokio::test]
async fn a_reaper_takes_back_what_reads_and_sets_aside_what_does_not() {
    let (bench, wrong) = spoiled().await;
    let (jobs, unreadable) = bench.claim_all().await;
    let held =
        bench.store.held(bench.lease, jobs[0].fence.nonce, [name("default")].into(), 100).await.unwrap();
    assert_eq!(held.iter().filter(|job| job.unreadable.is_some()).count(), unreadable.len());
    bench.store.close(bench.lease).await.unwrap();
    let lost = bench.store.lost(100).await.unwrap();
    assert_eq!(lost.len(), 56);
    assert_eq!(lost.iter().filter(|job| job.unreadable.is_some()).count(), wrong.len());
    let settlements: Vec<_> = lost.iter().map(set_aside).collect();
    for answer in bench.store.reap(settlements.as_slice().into()).await.unwrap() {
        assert!(matches!(answer, Settled::Applied(State::Ready | State::Dead)), "{answer:?}");
    }
    assert_eq!(bench.store.lost(100).await.unwrap(), []);
    assert_named(&bench, &wrong).await;
    // By hand they can still be cancelled, retried and deleted.
    bench.store.retry(wrong.as_slice().into()).await.unwrap();
    bench.store.cancel(wrong.as_slice().into()).await.unwrap();
    bench.store.delete(wrong.as_slice().into()).await.unwrap();
    assert_eq!(bench.store.list(&Filter::default(), None, 100).await.unwrap().jobs.len(), 50);
}

#[tokio::test]
async fn names_that_are_none_are_set_aside_by_the_fence() {
    let bench = Bench::new().await;
    let job = bench.enqueue(1).await.remove(0);
    bench.enqueue(1).await;
    bench.claim_all().await;
    bench.psql(&format!("UPDATE jobs SET queue = 'two words', kind = '' WHERE id = '{}'", job.id));
    bench.store.close(bench.lease).await.unwrap();
    let lost = bench.store.lost(100).await.unwrap();
    let settlements: Vec<_> = lost.iter().map(set_aside).collect();
    let mut states: Vec<_> = bench.store.reap(settlements.as_slice().into()).await.unwrap();
    states.sort_by_key(|answer| *answer != Settled::Applied(State::Ready));
    assert_eq!(states, [Settled::Applied(State::Ready), Settled::Applied(State::Dead)]);
    let record = bench.store.get([job.id].into()).await.unwrap().remove(0).unwrap();
    assert_eq!((record.queue, record.kind), (Name::unreadable(), Name::unreadable()));
    assert!(record.unreadable.is_some());
    // Lists of queues and what goes through them leave it out.
    assert_eq!(bench.store.queues(None, 100).await.unwrap().len(), 1);
    bench.store.prune(100).await.unwrap();
}

#[tokio::test]
async fn words_of_a_newer_program_are_said_of_the_one_job() {
    let bench = Bench::new().await;
    let jobs = bench.enqueue(3).await;
    let (claimed, _) = bench.claim_all().await;
    let failed: Vec<_> = claimed.iter().map(|job| settlement(job, Outcome::Cancelled)).collect();
    bench.store.settle(failed.as_slice().into()).await.unwrap();
    let of = |place: usize| format!("(SELECT seq FROM jobs WHERE id = '{}')", jobs[place].id);
    bench.psql(&format!("UPDATE ended SET reason = 'odd' WHERE seq = {}", of(0)));
    bench.psql(&format!("UPDATE attempts SET ending = 'odd' WHERE seq = {}", of(1)));
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    let records: Vec<_> =
        bench.store.get(ids.as_slice().into()).await.unwrap().into_iter().flatten().collect();
    let wrong: Vec<_> = records.iter().map(|record| record.unreadable.is_some()).collect();
    assert_eq!(wrong, [true, true, false]);
    assert_eq!(bench.store.list(&Filter::default(), None, 100).await.unwrap().jobs.len(), 3);
    // And a job that stands nowhere.
    bench.psql(&format!("DELETE FROM ended WHERE seq = {}", of(2)));
    let record = bench.store.get((&ids[2..]).into()).await.unwrap().remove(0).unwrap();
    assert!(record.unreadable.unwrap().to_string().contains("neither in waiting nor"));
}

#[tokio::test]
async fn a_definition_that_does_not_read_removes_nothing_and_stops_no_other() {
    let bench = Bench::new().await;
    let none = Retention { completed: Keep::NONE, ..Retention::default() };
    bench.store.define(&name("b"), &QueueConfig { retention: none, ..QueueConfig::default() }).await.unwrap();
    bench.psql("INSERT INTO queues (name, config, payload_max) VALUES ('default', 'no JSON', 10)");
    bench.psql("UPDATE settings SET value = value + 1 WHERE name = 'definitions'");
    bench.enqueue(2).await;
    let (jobs, _) = bench.claim_all().await;
    bench.complete(&jobs).await;
    bench.psql("UPDATE ended SET finished_at = 1");
    assert_eq!(bench.store.prune(100).await.unwrap(), 0);
    assert_eq!(bench.psql("SELECT count(*) FROM ended"), "2");
    let queues = bench.store.queues(None, 100).await.unwrap();
    assert_eq!(queues.iter().map(|queue| queue.unreadable.is_some()).collect::<Vec<_>>(), [false, true]);
    assert_eq!(queues[1].config, QueueConfig::unreadable());
    // It is mended by a definition.
    bench.store.define(&name("default"), &QueueConfig::default()).await.unwrap();
    assert_eq!(bench.store.prune(100).await.unwrap(), 2);
}
