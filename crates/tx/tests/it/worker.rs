//! The engine around handlers that complete their jobs within transactions: a ledger stays exact whatever
//! becomes of the attempts.

mod bank;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::Connection;
use windlass_core::State;
use windlass_core::outcome::Ending;
use windlass_core::store::Amended;
use windlass_worker::{Client, Ctx, Error, Job, JobError, State as Shared, Wakeups};

use crate::support::PATIENCE;
use crate::support::schema::url;
use bank::{Bank, First, Place, Test, Transfer, end_of, in_transaction};

/// Longer than any test has patience, also as an interval of polls, of which the first come up to 16 times as
/// often.
const NEVER: Duration = Duration::from_secs(3 * 30 * 16);

macro_rules! in_every_place {
    ($($test:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::Place::sqlite().await).await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::Place::postgres().await).await;
            })*
        }
    };
}

in_every_place! {
    a_committed_transaction_completes_the_job,
    a_commit_of_its_own_does_not_count_as_late,
    a_forgotten_commit_runs_the_job_again,
    an_error_before_the_commit_is_an_ordinary_failure,
    nothing_after_the_commit_takes_the_completion_back,
    a_timeout_before_the_commit_drops_the_transaction,
    an_attempt_that_has_lost_its_job_cannot_commit,
    a_worker_that_stops_hands_the_uncommitted_job_back,
    a_worker_that_dies_before_the_commit_leaves_no_effect_and_the_job_runs_again,
    a_request_to_cancel_counts_only_if_nothing_was_committed,
    a_drain_counts_what_the_transactions_decided,
    a_job_of_a_committed_transaction_wakes_an_idle_worker,
    a_flow_comes_with_its_transaction,
}

async fn a_committed_transaction_completes_the_job(place: Place) {
    let test = Test::at(place);
    let running = test.start();
    let handle = test.enqueue(First::Commit).await;
    assert_eq!(handle.output().await.unwrap(), "moved 7");
    let record = end_of(&handle).await;
    assert_eq!((record.attempts.len(), record.attempts[0].ending), (1, Some(Ending::Completed)));
    assert_eq!(test.said(&handle).await, ["before the transaction", "in the transaction"]);
    running.stop().await;
    assert_eq!((test.attempts(), test.ledger()), (1, 7));
}

async fn a_commit_of_its_own_does_not_count_as_late(place: Place) {
    let test = Test::at(place);
    let running = test.start();
    end_of(&test.enqueue(First::Commit).await).await;
    // The outcome is handed in after the commit was seen.
    let settled = async {
        while running.health().running > 0 || running.health().unsettled > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.expect("the attempt is settled");
    assert_eq!(running.health().fenced, 0);
    running.stop().await;
}

async fn a_forgotten_commit_runs_the_job_again(place: Place) {
    let test = Test::at(place);
    let (record, attempts) = test.run(First::Forget).await;
    assert_eq!(attempts, 2);
    let said = test.said(&test.client.handle(record.id)).await;
    assert_eq!(said, ["before the transaction", "in the transaction"].repeat(2), "of both attempts");
    assert_eq!(record.attempts[0].ending, Some(Ending::Failed));
    let error = record.attempts[0].error.as_deref().unwrap();
    assert!(error.contains("within a transaction that was not committed"), "{error}");
}

async fn an_error_before_the_commit_is_an_ordinary_failure(place: Place) {
    let test = Test::at(place);
    let (record, attempts) = test.run(First::FailBeforeCommit).await;
    assert_eq!((attempts, record.attempts[0].error.as_deref()), (2, Some("before the commit")));
}

async fn nothing_after_the_commit_takes_the_completion_back(place: Place) {
    for first in [First::FailAfterCommit, First::PanicAfterCommit, First::HangAfterCommit] {
        let test = Test::at(place.clone());
        let (record, attempts) = test.run(first).await;
        assert_eq!((attempts, record.attempts.len()), (1, 1), "{first:?}");
    }
}

async fn a_timeout_before_the_commit_drops_the_transaction(place: Place) {
    let test = Test::at(place);
    let (record, attempts) = test.run(First::HangBeforeCommit).await;
    assert_eq!((attempts, record.attempts[0].ending), (2, Some(Ending::TimedOut)));
}

async fn an_attempt_that_has_lost_its_job_cannot_commit(place: Place) {
    let test = Test::at(place);
    let (record, attempts) = test.run(First::Lose).await;
    assert_eq!(attempts, 2);
    let endings: Vec<_> = record.attempts.iter().map(|attempt| attempt.ending).collect();
    assert_eq!(endings, [Some(Ending::Returned), Some(Ending::Completed)]);
}

async fn a_worker_that_stops_hands_the_uncommitted_job_back(place: Place) {
    let test = Test::at(place);
    let running = test.start();
    let handle = test.enqueue(First::HangBeforeCommit).await;
    test.bank.waits.notified().await;
    running.stop_now().await;
    assert_eq!((test.ledger(), handle.state().await.unwrap()), (0, Some(State::Ready)));
    let running = test.start();
    assert_eq!(end_of(&handle).await.state, State::Completed);
    running.stop().await;
    assert_eq!(test.ledger(), 7);
}

async fn a_worker_that_dies_before_the_commit_leaves_no_effect_and_the_job_runs_again(place: Place) {
    let test = Test::at(place);
    let running = test.start();
    let handle = test.enqueue(First::HangBeforeCommit).await;
    test.bank.waits.notified().await;
    running.abort();
    let running = test.start();
    let record = end_of(&handle).await;
    running.stop().await;
    assert_eq!(record.state, State::Completed);
    // Whether the store was told that the attempt had begun is a matter of milliseconds.
    let ending = record.attempts[0].ending;
    assert!(matches!(ending, Some(Ending::Stalled | Ending::Returned)), "{ending:?}");
    assert_eq!((test.ledger(), test.attempts()), (7, 2));
}

async fn a_request_to_cancel_counts_only_if_nothing_was_committed(place: Place) {
    for (first, state) in [(First::WaitAndForget, State::Cancelled), (First::WaitAndCommit, State::Completed)]
    {
        let test = Test::at(place.clone());
        // Long enough for the attempt to go on although it was told to stop.
        let running = test.worker().cancel_grace(PATIENCE).start().unwrap();
        let handle = test.enqueue(first).await;
        test.bank.waits.notified().await;
        assert_eq!(test.client.cancel(handle.id()).await.unwrap(), Amended::Done(State::Running));
        test.bank.go_on.notify_one();
        assert_eq!(end_of(&handle).await.state, state, "{first:?}");
        running.stop().await;
        let effect = if state == State::Completed { 7 } else { 0 };
        assert_eq!(test.ledger(), effect, "{first:?}");
    }
}

async fn a_drain_counts_what_the_transactions_decided(place: Place) {
    let test = Test::at(place);
    for first in [First::Commit, First::Forget, First::FailAfterCommit] {
        test.enqueue(first).await;
    }
    let drained = test.worker().drain().await.unwrap();
    assert_eq!((drained.completed, drained.retried, drained.dead), (3, 1, 0));
    assert_eq!(test.ledger(), 21);
}

async fn a_job_of_a_committed_transaction_wakes_an_idle_worker(place: Place) {
    let test = Test::at(place);
    let running = test.worker().wakeups(Wakeups::On).poll_interval(NEVER).lease(NEVER).start().unwrap();
    // From here on the worker has found its queue empty.
    end_of(&test.enqueue(First::Commit).await).await;
    let job = Transfer { amount: 1, first: First::Commit };
    let handle = in_transaction!(&test.bank.place, |tx, _pay| {
        let handle = test.client.enqueue(job).priority(3).within(&mut tx).await.unwrap();
        assert!(handle.is_new());
        assert_eq!(handle.state().await.unwrap(), None, "not before the commit");
        tx.commit().await.unwrap();
        handle
    });
    assert_eq!(end_of(&handle).await.priority, 3);

    let jobs = (0..20).map(|amount| Transfer { amount, first: First::Commit });
    let handles = in_transaction!(&test.bank.place, |tx, _pay| {
        let handles = test.client.enqueue_all(jobs).within(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        handles
    });
    for handle in &handles {
        assert_eq!(end_of(handle).await.state, State::Completed);
    }
    running.stop().await;
    assert_eq!(test.ledger(), 7 + 1 + 190);
}

/// All of a flow is there with the commit, or nothing. Its jobs complete within transactions of their own, and it goes on.
async fn a_flow_comes_with_its_transaction(place: Place) {
    let test = Test::at(place);
    let draft = || {
        let mut flow = test.client.flow("transfers");
        let transfer = |amount| Transfer { amount, first: First::Commit };
        let parts = flow.add_all((1..=3).map(transfer));
        flow.add_after(&parts, transfer(10));
        flow
    };
    let rolled_back = in_transaction!(&test.bank.place, |tx, _pay| {
        let flow = draft().within(&mut tx).await.unwrap();
        tx.rollback().await.unwrap();
        flow
    });
    assert!(matches!(rolled_back.view().await, Err(Error::NoFlow { .. })));
    let flow = in_transaction!(&test.bank.place, |tx, _pay| {
        let flow = draft().within(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        flow
    });
    assert_eq!(flow.view().await.unwrap().tally.waiting, 1);
    let drained = test.worker().drain().await.unwrap();
    assert_eq!(drained.completed, 4);
    let view = flow.view().await.unwrap();
    assert!(view.is_over && view.tally.is_success(), "{view:?}");
    assert_eq!(test.ledger(), 16);
}

#[derive(Debug, Serialize, Deserialize)]
struct Blocking;

impl Job for Blocking {
    const KIND: &'static str = "blocking";
    type Output = ();
}

fn blocking(_: Blocking, ctx: Ctx, Shared(bank): Shared<Bank>) -> Result<(), JobError> {
    let Place::Sqlite(file) = &bank.place else { panic!("rusqlite speaks SQLite only") };
    let mut connection = file.rusqlite();
    let mut tx = connection.transaction()?;
    tx.execute("INSERT INTO ledger VALUES (5)", [])?;
    ctx.client().enqueue(Transfer { amount: 2, first: First::Commit }).within_blocking(&mut tx)?;
    ctx.complete_within_blocking(&mut tx)?;
    Ok(tx.commit()?)
}

#[tokio::test]
async fn blocking_handlers_use_blocking_drivers() {
    let test = Test::at(Place::sqlite().await);
    test.client.enqueue(Blocking).await.unwrap();
    let drained = test.worker().handle_blocking(blocking).drain().await.unwrap();
    assert_eq!((drained.completed, drained.total()), (2, 2));
    assert_eq!(test.ledger(), 7);
}

#[tokio::test]
async fn a_store_without_transactions_says_so() {
    let client = Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    let mut connection = rusqlite::Connection::open_in_memory().unwrap();
    let refused = client.enqueue(Blocking).within(&mut connection).await;
    assert!(matches!(refused, Err(Error::Store(windlass_core::StoreError::Transaction(_)))));
}
