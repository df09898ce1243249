//! Calls over connections that lead nowhere.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_core::StoreErrorKind;

use super::*;

/// Connections whose sessions say what they are told to.
#[derive(Default)]
struct Nowhere {
    has_sent: AtomicBool,
    has_ended: AtomicBool,
}

impl Connections for Nowhere {
    type Session = Arc<Self>;

    fn timeout(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn lend(
        self: &Arc<Self>,
        _purpose: Purpose,
        _deadline: Duration,
    ) -> Result<Arc<Self>, Unreachable> {
        Ok(Arc::clone(self))
    }
}

impl Session for Arc<Nowhere> {
    fn has_sent(&self) -> bool {
        self.has_sent.load(Ordering::Relaxed)
    }

    fn ended(self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

/// A program that must stay out.
struct Outdated;

impl<S: Sync> Admit<S> for Outdated {
    async fn admit(self: &Arc<Self>, _session: &S) -> Result<(), Fault> {
        Err(StoreError::SchemaTooNew { found: 9, known: 1 }.into())
    }
}

async fn start() -> Remote<Nowhere> {
    Remote::start("test", || Ok(Nowhere::default()), async |_| {}).await.unwrap()
}

#[tokio::test]
async fn what_was_handed_in_is_finished_before_the_thread_says_goodbye_and_ends() {
    let (part, parted) = oneshot::channel();
    let part = async move |connections: &Nowhere| {
        part.send(connections.has_ended.load(Ordering::Relaxed)).expect("the test waits for it");
    };
    let remote = Remote::start("test", || Ok(Nowhere::default()), part).await.unwrap();
    let (background, background_ended) = oneshot::channel::<()>();
    remote.spawn_background(async move {
        pending::<()>().await;
        drop(background);
    });
    let (go, gone) = oneshot::channel();
    let call = remote.call(Call::WRITE, async move |_, _| {
        gone.await.expect("it is told to go on");
        Ok(())
    });
    // The caller goes away.
    drop(call);
    go.send(()).expect("the call waits for it");
    drop(remote);
    assert!(parted.await.expect("the thread says goodbye"), "what was handed in comes first");
    background_ended.await.expect_err("what runs in the background is dropped, and says nothing");
}

#[tokio::test]
async fn what_cannot_be_made_or_panics_is_an_error() {
    let panics_at_once = || -> StoreResult<Nowhere> { panic!("a defect") };
    let error = Remote::start("test", panics_at_once, async |_| {}).await.err().unwrap();
    assert_eq!(error.to_string(), "internal error: the thread of the store ended before it began");
    let refused = || Err::<Nowhere, _>(StoreError::Address("nowhere".to_owned()));
    let error = Remote::start("test", refused, async |_| {}).await.err().unwrap();
    assert_eq!(error.to_string(), "nowhere");
    let panics = |_, _| async { panic!("a defect") };
    let error = start().await.call::<(), _, _>(Call::WRITE, panics).await.unwrap_err();
    assert_eq!(error.to_string(), "internal error: the operation ended without an answer");
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_unknown_only_if_it_wrote_and_something_was_sent() {
    let remote = start().await;
    let kind = async |call: Call, has_sent| {
        remote.connections().has_sent.store(has_sent, Ordering::Relaxed);
        let late = remote.call(call.within(Duration::from_millis(1)), |_, _| pending::<Result<(), Fault>>());
        late.await.unwrap_err().kind()
    };
    assert_eq!(kind(Call::WRITE, true).await, StoreErrorKind::Unknown);
    assert_eq!(kind(Call::LEASE, true).await, StoreErrorKind::Unknown);
    assert_eq!(kind(Call::READ, true).await, StoreErrorKind::Unavailable);
    assert_eq!(kind(Call::WRITE, false).await, StoreErrorKind::Unavailable);
    assert!(!remote.connections().has_ended.load(Ordering::Relaxed), "each was given up");
}

#[tokio::test]
async fn a_program_that_must_stay_out_makes_only_calls_that_are_for_all() {
    let remote = start().await.with(Outdated);
    let error = remote.call(Call::WRITE, |_, _| ready(Ok(()))).await.unwrap_err();
    assert!(matches!(error, StoreError::SchemaTooNew { found: 9, .. }), "{error}");
    remote.call(Call::LEASE.for_all(), |_, _| ready(Ok(()))).await.unwrap();
}
