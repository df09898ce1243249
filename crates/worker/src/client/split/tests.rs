//! Calls to a store that is away, sick in parts, or whose answers are lost.

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::store::StoreResult;
use windlass_core::{CallId, JobId, Name, NewJob, Options, StoreError};

use super::*;

type Script = Box<dyn Fn(usize, &[NewJob]) -> StoreResult<()> + Send + Sync>;

/// A store that answers as its script says, which is told how often it was asked before.
struct Scripted<const IS_FENCED: bool> {
    script: Script,
    takes: Duration,
    asked: Mutex<Vec<(CallId, Vec<JobId>, Instant)>>,
}

impl<const IS_FENCED: bool> Scripted<IS_FENCED> {
    fn new(script: impl Fn(usize, &[NewJob]) -> StoreResult<()> + Send + Sync + 'static) -> Self {
        Self { script: Box::new(script), takes: Duration::ZERO, asked: Mutex::default() }
    }

    fn sizes(&self) -> Vec<usize> {
        self.asked.lock().unwrap().iter().map(|(_, ids, _)| ids.len()).collect()
    }

    /// Calls with the same id were about the same jobs; answers how many ids there were.
    fn calls(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        let mut calls: HashMap<CallId, &[JobId]> = HashMap::new();
        for (call, ids, _) in asked.iter() {
            assert_eq!(calls.entry(*call).or_insert(ids), ids, "another call under the same id");
        }
        calls.len()
    }
}

impl<const IS_FENCED: bool> Call for Scripted<IS_FENCED> {
    type Item = NewJob;
    type Answer = JobId;
    const IS_FENCED: bool = IS_FENCED;

    fn id(job: &NewJob) -> JobId {
        job.id
    }

    fn queue(job: &NewJob) -> &Name {
        &job.queue
    }

    fn weight(_job: &NewJob) -> usize {
        0
    }

    async fn ask(&self, id: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<JobId>> {
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        let before = {
            let mut asked = self.asked.lock().unwrap();
            asked.push((id, ids.clone(), Instant::now()));
            asked.len() - 1
        };
        tokio::time::sleep(self.takes).await;
        (self.script)(before, &jobs).map(|()| ids)
    }
}

/// Jobs of these queues, in turn.
fn jobs(count: usize, queues: &[&str]) -> Vec<NewJob> {
    let job =
        |place: usize| NewJob::new("k", "", Options::new().queue(queues[place % queues.len()])).unwrap();
    (0..count).map(job).collect()
}

fn away() -> StoreError {
    StoreError::Unavailable { what: "down".into(), source: None }
}

fn lost() -> StoreError {
    StoreError::Unknown { what: "broke".into(), source: None }
}

fn defect() -> StoreError {
    StoreError::Internal { what: "defect".into(), source: None }
}

/// Each was answered with its own id, but those for which another answer is expected.
fn assert_own(jobs: &[NewJob], answers: &[Answer<JobId>], is_failed: impl Fn(usize) -> bool) {
    assert_eq!(answers.len(), jobs.len());
    for (place, (job, answer)) in jobs.iter().zip(answers).enumerate() {
        assert_eq!(answer.is_err(), is_failed(place), "{place}: {answer:?}");
        assert!(answer.as_ref().is_ok_and(|id| *id == job.id) || answer.is_err());
    }
}

/// What one caller is told when the store answers with these errors, one after the other.
async fn error_after(answers: impl IntoIterator<Item = StoreError>) -> StoreError {
    let answers = Mutex::new(answers.into_iter().collect::<VecDeque<_>>());
    let next = move || answers.lock().unwrap().pop_front().expect("no more tries than answers");
    let store = Scripted::<false>::new(move |_, _| Err(next()));
    let error = flush(&store, jobs(1, &["q"])).await.remove(0).expect_err("no answer is a result");
    assert_eq!(store.calls(), 1, "one call, however often it was tried");
    error
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_stays_unknown_when_the_store_is_away_afterwards() {
    let told = async |errors: [fn() -> StoreError; 5]| error_after(errors.map(|error| error())).await.kind();
    assert_eq!(told([away, away, away, away, away]).await, StoreErrorKind::Unavailable);
    assert_eq!(told([lost, away, away, away, away]).await, StoreErrorKind::Unknown);
    assert_eq!(error_after([away(), lost(), defect()]).await.kind(), StoreErrorKind::Unknown);
    let taken = StoreError::IdTaken { id: JobId::new() };
    assert_eq!(error_after([lost(), taken]).await.kind(), StoreErrorKind::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_told_with_its_cause_and_once() {
    let lost = || StoreError::Unknown { what: "broke".into(), source: Some("pulled out".into()) };
    let error = error_after([lost(), lost(), lost(), lost(), lost()]).await;
    assert_eq!(error.to_string().matches("broke").count(), 1, "{error}");
    assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("pulled out"));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_much_at_once_is_halved_and_not_repeated_as_it_was() {
    let store = Scripted::<false>::new(|_, jobs| if jobs.len() > 30 { Err(away()) } else { Ok(()) });
    let jobs = jobs(100, &["a", "b"]);
    assert_own(&jobs, &flush(&store, jobs.clone()).await, |_| false);
    assert_eq!(store.sizes(), [100, 50, 25, 25, 50, 25, 25]);
    assert_eq!(store.calls(), 7, "each half is a call of its own");
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_answer_was_lost_is_repeated_as_the_same_call() {
    let jobs = jobs(100, &["a"]);
    let store = Scripted::<false>::new(|before, _| {
        [Err(lost()), Err(away()), Ok(())].into_iter().nth(before).unwrap()
    });
    assert_own(&jobs, &flush(&store, jobs.clone()).await, |_| false);
    assert_eq!((store.sizes(), store.calls()), (vec![100; 3], 1));
    // Fenced writes need no id: they may be halved at once.
    let store = Scripted::<true>::new(|before, _| if before == 0 { Err(lost()) } else { Ok(()) });
    assert_own(&jobs, &flush(&store, jobs.clone()).await, |_| false);
    assert_eq!(store.sizes(), [100, 50, 50]);
}

#[tokio::test(start_paused = true)]
async fn no_call_is_repeated_when_the_store_may_have_forgotten_it() {
    let mut store = Scripted::<false>::new(|_, _| Err(lost()));
    store.takes = Duration::from_secs(25);
    let error = flush(&store, jobs(1, &["a"])).await.remove(0).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unknown);
    let asked = store.asked.lock().unwrap();
    let last = asked.last().unwrap().2.duration_since(asked[0].2);
    assert!(
        asked.len() > 1 && last < Duration::from_secs(60),
        "{} tries, the last after {last:?}",
        asked.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_one_job_or_one_queue_is_told_to_its_callers_alone() {
    let jobs = jobs(300, &["good", "bad", "fine"]);
    let culprit = jobs[137].id;
    let store =
        Scripted::<false>::new(
            move |_, jobs| {
                if jobs.iter().any(|job| job.id == culprit) { Err(defect()) } else { Ok(()) }
            },
        );
    assert_own(&jobs, &flush(&store, jobs.clone()).await, |place| place == 137);
    assert!(store.sizes().len() < 25, "found by halves: {:?}", store.sizes());
    let store = Scripted::<false>::new(|_, jobs| {
        if jobs.iter().any(|job| job.queue.as_str() == "bad") { Err(defect()) } else { Ok(()) }
    });
    let answers = flush(&store, jobs.clone()).await;
    assert_own(&jobs, &answers, |place| place % 3 == 1);
    assert_eq!(answers[1].as_ref().unwrap_err().to_string(), "internal error: defect");
    assert_eq!(store.sizes()[..3], [300, 100, 100], "by queue first");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_to_the_one_that_it_names() {
    let jobs = jobs(10, &["a"]);
    let (taken, also) = (jobs[3].id, jobs[7].id);
    let store = Scripted::<false>::new(move |_, jobs| {
        match jobs.iter().find(|job| job.id == taken || job.id == also) {
            Some(job) => Err(StoreError::IdTaken { id: job.id }),
            None => Ok(()),
        }
    });
    let answers = flush(&store, jobs.clone()).await;
    assert_own(&jobs, &answers, |place| place == 3 || place == 7);
    assert!(matches!(answers[7], Err(StoreError::IdTaken { id }) if id == also));
    assert_eq!((store.sizes(), store.calls()), (vec![10, 9, 8], 3));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_not_asked_about_every_job() {
    let jobs = jobs(1_000, &["a", "b"]);
    let store = Scripted::<false>::new(|_, _| Err(away()));
    let answers = flush(&store, jobs.clone()).await;
    assert_own(&jobs, &answers, |_| true);
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap_err().kind() == StoreErrorKind::Unavailable));
    assert!(store.sizes().len() <= 6, "{:?}", store.sizes());
    // An answer that was lost at the end concerns those that were asked for, and no others.
    let store = Scripted::<false>::new(|before, _| Err(if before < 3 { away() } else { lost() }));
    let answers = flush(&store, jobs.clone()).await;
    let unknown =
        answers.iter().filter(|answer| answer.as_ref().unwrap_err().kind() == StoreErrorKind::Unknown);
    let asked: usize = store.asked.lock().unwrap()[3..].iter().map(|(_, ids, _)| ids.len()).max().unwrap();
    assert!((1..=2 * asked).contains(&unknown.count()));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_store_is_a_lost_answer() {
    let store = Scripted::<false>::new(|before, _| {
        assert!(before > 0, "the first time");
        Ok(())
    });
    let jobs = jobs(2, &["a"]);
    assert_own(&jobs, &flush(&store, jobs.clone()).await, |_| false);
    assert_eq!((store.sizes(), store.calls()), (vec![2, 2], 1));
}
