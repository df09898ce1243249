//! Jobs that are handed over to a worker of this process in the transaction that stores them.
//!
//! A worker could be told of a job once it is stored, and would then claim it: a second commit, a second wait for the disk,
//! and three more threads to wake. So the transaction asks a worker with room for its claim, which the worker makes on this
//! thread, and runs it before the commit. What the claim took is brought to the worker right after the commit.

use std::panic::{AssertUnwindSafe, catch_unwind};

use windlass_core::StoreError;
use windlass_core::bell::{Bell, Claiming, Rings};
use windlass_core::store::{ClaimAnswer, StoreResult};

use super::Lane;
use super::operation::Operation;
use crate::error::Fault;
use crate::jobs::claim::claim;
use crate::session::Session;

/// A claim that the group itself has asked for.
struct Handed {
    claim: Box<dyn Claiming>,
    /// None until it has run.
    result: Option<StoreResult<ClaimAnswer>>,
}

impl Handed {
    /// The worker's code runs here. What is wrong with it must not end the writer.
    fn bring(claim: Box<dyn Claiming>, answer: StoreResult<ClaimAnswer>) {
        if catch_unwind(AssertUnwindSafe(|| claim.answer(answer))).is_err() {
            tracing::error!("a worker panicked over the answer to its claim");
        }
    }
}

impl Operation for Handed {
    fn lane(&self) -> Lane {
        Lane::Normal
    }

    fn run(&mut self, session: &Session<'_>) -> Result<(), Fault> {
        self.result = Some(match claim(session, self.claim.request()) {
            Ok(answer) => Ok(answer),
            Err(Fault::Refused(refusal)) => Err(refusal),
            Err(fault) => return Err(fault),
        });
        Ok(())
    }

    fn answer(self: Box<Self>) {
        let answer = self.result.expect("an operation is answered only after it ran");
        Self::bring(self.claim, answer);
    }

    fn fail(self: Box<Self>, error: StoreError) {
        Self::bring(self.claim, Err(error));
    }
}

/// Runs the claim of a worker here for jobs that the group has stored; workers here are woken for the rest after the commit.
/// Answers what other processes should hear although workers here may have room: all of it if none makes a claim now, since
/// their runtime may be stuck.
pub(super) fn hand_over(
    session: &Session<'_>,
    bell: &Bell,
    group: &mut Vec<Box<dyn Operation>>,
) -> Result<Rings, Fault> {
    let mut fresh = session.take_fresh();
    let Some(claim) = fresh.claim(bell) else {
        session.ring(fresh.clone());
        return Ok(fresh);
    };
    session.ring(fresh);
    // Answered first: its job starts then, and the caller of the enqueue only hears that it is stored.
    group.insert(0, Box::new(Handed { claim, result: None }));
    group[0].run(session)?;
    Ok(Rings::NONE)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, mpsc};

    use rusqlite::Connection;
    use tokio::sync::{Semaphore, oneshot};
    use windlass_core::bell::{Enrolled, Fresh, Waiter};
    use windlass_core::clock::ManualClock;
    use windlass_core::store::ClaimRequest;
    use windlass_core::{LeaseId, Name};

    use super::*;
    use crate::conditions::Conditions;
    use crate::migrate;
    use crate::wakeup::Ringer;
    use crate::writer::Tools;
    use crate::writer::group::{Committer, HandOver};
    use crate::writer::operation::Pending;

    /// What is wrong with the claims of a worker.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Defect {
        None,
        Request,
        Answer,
        /// It makes none.
        Asleep,
    }

    /// A worker with room, whose lease the store does not know.
    struct Idle {
        defect: Defect,
        woken: AtomicU32,
        answers: mpsc::Sender<StoreResult<ClaimAnswer>>,
    }

    struct IdleClaim {
        defect: Defect,
        request: ClaimRequest,
        answers: mpsc::Sender<StoreResult<ClaimAnswer>>,
    }

    impl Waiter for Idle {
        fn room(&self, _queue: &Name) -> u32 {
            1
        }

        fn wake(&self, _queue: Option<&Name>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }

        fn claim(&self, _queue: &Name) -> Option<Box<dyn Claiming>> {
            let request = ClaimRequest {
                lease: LeaseId::new(),
                nonce: 1,
                queues: Vec::new(),
                kinds: Vec::new(),
                limit: 1,
                at_once: 1,
                bytes: 1,
            };
            let claim = IdleClaim { defect: self.defect, request, answers: self.answers.clone() };
            (self.defect != Defect::Asleep).then(|| Box::new(claim) as _)
        }
    }

    impl Claiming for IdleClaim {
        fn request(&self) -> &ClaimRequest {
            assert!(self.defect != Defect::Request, "a claim that panics");
            &self.request
        }

        fn answer(self: Box<Self>, answer: StoreResult<ClaimAnswer>) {
            assert!(self.defect != Defect::Answer, "a worker that panics");
            self.answers.send(answer).unwrap();
        }
    }

    /// A committer, and a worker with room.
    struct Stage {
        committer: Committer,
        worker: Arc<Idle>,
        answers: mpsc::Receiver<StoreResult<ClaimAnswer>>,
        _enrolled: Enrolled,
    }

    impl Stage {
        fn new(defect: Defect) -> Self {
            let connection = Connection::open_in_memory().unwrap();
            migrate::run(&connection).unwrap();
            connection.execute_batch("CREATE TABLE notes (note INT)").unwrap();
            let bell = Bell::new();
            let tools = Tools {
                connection,
                path: None,
                clock: Arc::new(ManualClock::default()),
                steps: Arc::default(),
                conditions: Arc::new(Conditions::of_memory()),
                bell: bell.clone(),
                ringer: Some(Ringer::new(Arc::new(tempfile::tempfile().unwrap()))),
            };
            let (sender, answers) = mpsc::channel();
            let worker = Arc::new(Idle { defect, woken: AtomicU32::new(0), answers: sender });
            let names = |name: &str| vec![Name::new(name).unwrap()];
            let _enrolled = bell.enroll(&names("q"), &names("k"), Arc::clone(&worker) as _);
            Self { committer: Committer::new(tools, Arc::default()), worker, answers, _enrolled }
        }

        /// Stores a job, and answers how many there are then.
        fn enqueue(&mut self) -> i64 {
            let enqueue = |session: &Session<'_>| {
                session.connection.execute("INSERT INTO notes VALUES (1)", [])?;
                let name = |text| Name::new(text).expect("a good name");
                session.ring(Rings::fresh(Fresh { queue: name("q"), kind: Some(name("k")), jobs: 1 }));
                Ok(session.connection.query_row("SELECT count(*) FROM notes", [], |row| row.get(0))?)
            };
            let (caller, mut stored) = oneshot::channel();
            let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
            let (run, result) = (enqueue, None);
            let operation = Box::new(Pending { lane: Lane::Intake, run, result, caller, _place: place });
            self.committer.run(vec![operation], HandOver::Try);
            stored.try_recv().unwrap().unwrap()
        }

        fn woken(&self) -> u32 {
            self.worker.woken.swap(0, Ordering::Relaxed)
        }
    }

    #[test]
    fn a_worker_that_claims_is_answered_and_not_woken() {
        let mut stage = Stage::new(Defect::None);
        assert_eq!(stage.enqueue(), 1);
        assert!(matches!(stage.answers.try_recv(), Ok(Ok(ClaimAnswer::LeaseLost))));
        assert_eq!(stage.woken(), 0);
    }

    #[test]
    fn a_worker_that_does_not_claim_is_woken() {
        let mut stage = Stage::new(Defect::Asleep);
        assert_eq!((stage.enqueue(), stage.woken()), (1, 1));
    }

    #[test]
    fn a_claim_that_panics_takes_no_job_with_it() {
        let mut stage = Stage::new(Defect::Request);
        for jobs in 1..=2 {
            assert_eq!(stage.enqueue(), jobs);
            assert!(matches!(stage.answers.try_recv(), Ok(Err(_))));
            assert_eq!(stage.woken(), 1, "there is a job that it has not got");
        }
    }

    #[test]
    fn a_worker_that_panics_over_its_answer_does_not_end_the_writer() {
        let mut stage = Stage::new(Defect::Answer);
        assert_eq!((stage.enqueue(), stage.enqueue()), (1, 2));
    }
}
