//! Enqueues and claims that meet, without a server.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use windlass_core::store::QueueShare;
use windlass_core::{LeaseId, Options, StoreErrorKind};

use super::waiting::Ended;
use super::*;

const NOTHING: ClaimAnswer = ClaimAnswer::Jobs {
    jobs: Vec::new(),
    next_due: None,
    unreadable: Vec::new(),
    sick: Vec::new(),
    limited: Vec::new(),
    ample: Vec::new(),
};

fn request(queue: &str) -> Arc<ClaimRequest> {
    let name = |text| Name::new(text).unwrap();
    let queues = vec![QueueShare { queue: name(queue), limit: 5 }];
    Arc::new(ClaimRequest {
        lease: LeaseId::new(),
        nonce: windlass_core::Fence::nonce(),
        queues,
        kinds: vec![name("k")],
        limit: 5,
        at_once: 5,
        bytes: 1 << 20,
    })
}

fn job(queue: &str, kind: &str) -> [NewJob; 1] {
    [NewJob::new(kind, "", Options::new().queue(queue)).unwrap()]
}

/// A claim that finds nothing, so that its worker waits.
async fn wait_for_jobs(handover: &Handover, request: &Arc<ClaimRequest>) {
    let alone = async |enqueuing| {
        if let Some(enqueuing) = enqueuing {
            handover.wait_for(enqueuing).await;
        }
        Ok(NOTHING)
    };
    assert_eq!(handover.claim(request, alone).await.unwrap(), NOTHING);
}

/// Polls once; the future must have more to do.
async fn begin<F: Future>(future: &mut Pin<&mut F>) {
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// An enqueue that the claim goes along with.
async fn meet<'h, F: Future>(
    handover: &'h Handover,
    along: &mut Pin<&mut F>,
) -> (OpenOffer<'h>, PendingClaim) {
    let jobs = job("q", "k");
    let mut offer = pin!(handover.offer(&jobs, || {}));
    begin(&mut offer).await;
    begin(along).await;
    offer.await.expect("a claim came")
}

fn silent() {
    panic!("no worker waits for this");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_rung_for_who_does_not_wait_for_such_jobs() {
    let handover = Handover::default();
    assert!(handover.offer(&job("q", "k"), silent).await.is_none());
    let request = request("q");
    wait_for_jobs(&handover, &request).await;
    let later = [NewJob::new("k", "", Options::new().queue("q").delay(Duration::from_secs(1))).unwrap()];
    let expiring =
        [NewJob::new("k", "", Options::new().queue("q").expires_in(Duration::from_secs(1))).unwrap()];
    for jobs in [job("other", "k"), job("q", "other"), later, expiring] {
        assert!(handover.offer(&jobs, silent).await.is_none());
    }
    // One that is not plain keeps the others from going along.
    let [plain] = job("q", "k");
    let [delayed] = [NewJob::new("k", "", Options::new().queue("q").delay(Duration::from_secs(1))).unwrap()];
    assert!(handover.offer(&[plain, delayed], silent).await.is_none());
    // Who asks does not wait.
    let mut claim = pin!(handover.claim(&request, async |_| std::future::pending().await));
    begin(&mut claim).await;
    assert!(handover.offer(&job("q", "k"), silent).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_claim_goes_along_and_is_answered_by_the_enqueue() {
    let handover = Handover::default();
    let request = request("q");
    wait_for_jobs(&handover, &request).await;
    let rings = AtomicUsize::new(0);
    let jobs = job("q", "k");
    let enqueue = async {
        let ring = || _ = rings.fetch_add(1, Ordering::Relaxed);
        let (open_offer, pending) = handover.offer(&jobs, ring).await.expect("a claim is pending");
        assert_eq!(pending.request, request);
        pending.answer(Ok(ClaimAnswer::LeaseLost));
        assert!(open_offer.arrive(), "no claim looked too early");
    };
    let claim = handover.claim(&request, async |_| panic!("it need not be made again"));
    let ((), answer) = tokio::join!(enqueue, claim);
    assert_eq!((answer.unwrap(), rings.into_inner()), (ClaimAnswer::LeaseLost, 1));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_declined_is_made_alone_and_one_that_was_dropped_is_unknown() {
    let handover = Handover::default();
    let request = request("q");
    for is_declined in [true, false] {
        wait_for_jobs(&handover, &request).await;
        let jobs = job("q", "k");
        let enqueue = async {
            let (_open_offer, pending) = handover.offer(&jobs, || {}).await.expect("a claim is pending");
            if is_declined {
                pending.decline();
            }
        };
        let ((), answer) = tokio::join!(enqueue, handover.claim(&request, async |_| Ok(NOTHING)));
        match answer {
            Ok(answer) => assert!(is_declined && answer == NOTHING),
            Err(error) => assert!(!is_declined && error.kind() == StoreErrorKind::Unknown),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_come_is_waited_for_once() {
    let handover = Handover::default();
    wait_for_jobs(&handover, &request("q")).await;
    let rings = AtomicUsize::new(0);
    let ring = || _ = rings.fetch_add(1, Ordering::Relaxed);
    assert!(handover.offer(&job("q", "k"), ring).await.is_none());
    assert!(handover.offer(&job("q", "k"), silent).await.is_none());
    assert_eq!(rings.into_inner(), 1);
    // What comes too late is a claim like any other.
    wait_for_jobs(&handover, &request("q")).await;
}

#[tokio::test(start_paused = true)]
async fn others_look_when_the_jobs_are_stored() {
    let handover = Handover::default();
    let (first, second, stranger) = (request("q"), request("q"), request("other"));
    wait_for_jobs(&handover, &first).await;
    let mut along = pin!(handover.claim(&first, async |_| panic!("it goes along")));
    let (open_offer, pending) = meet(&handover, &mut along).await;
    assert!(handover.offer(&job("q", "k"), silent).await.is_none(), "one offer at a time");

    let looked = AtomicUsize::new(0);
    let look = async |enqueuing: Option<Enqueuing>| {
        handover.wait_for(enqueuing.expect("there is an enqueue")).await;
        looked.fetch_add(1, Ordering::Relaxed);
        Ok(NOTHING)
    };
    let mut after = pin!(handover.claim(&second, look));
    begin(&mut after).await;
    wait_for_jobs(&handover, &stranger).await;
    assert_eq!(looked.load(Ordering::Relaxed), 0, "the jobs are not stored yet");
    pending.answer(Ok(NOTHING));
    assert!(open_offer.arrive());
    after.await.unwrap();
    along.await.unwrap();
    assert_eq!(looked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_enqueue_is_told_that_somebody_looked_too_early() {
    let handover = Handover::default();
    let (first, second) = (request("q"), request("q"));
    wait_for_jobs(&handover, &first).await;
    let mut along = pin!(handover.claim(&first, async |_| panic!("it goes along")));
    let (open_offer, pending) = meet(&handover, &mut along).await;
    wait_for_jobs(&handover, &second).await;
    pending.answer(Ok(NOTHING));
    assert!(!open_offer.arrive(), "the second has looked");
    along.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_enqueue_that_is_given_up_holds_nobody_up() {
    let handover = Handover::default();
    let request = request("q");
    wait_for_jobs(&handover, &request).await;
    {
        let jobs = job("q", "k");
        let mut offer = pin!(handover.offer(&jobs, || {}));
        begin(&mut offer).await;
    }
    let began = tokio::time::Instant::now();
    wait_for_jobs(&handover, &request).await;
    assert!(began.elapsed() < COMPANY_WAIT);
}

/// A claim that ended so, at once.
fn answered(answer: Option<&ClaimAnswer>) -> Ended<'_> {
    Ended { answer, took: Duration::ZERO, is_along: false }
}

#[test]
fn leases_that_are_gone_are_not_remembered_for_ever() {
    let mut waiting = Waiting::default();
    for _ in 0..1_000 {
        let request = request("q");
        waiting.begin(&request);
        waiting.end(&request, answered(Some(&NOTHING)));
    }
    assert!(waiting.len() <= 64, "{}", waiting.len());
    assert!(waiting.want(&job("q", "k")[0]));
    waiting.penalize(&[Name::new("q").unwrap()]);
    assert!(!waiting.want(&job("q", "k")[0]));
}

#[test]
fn a_worker_waits_in_the_queues_that_had_less_than_it_asked_for() {
    let mut waiting = Waiting::default();
    let mut request = ClaimRequest::clone(&request("a"));
    request.queues.push(QueueShare { queue: Name::new("b").unwrap(), limit: 0 });
    waiting.begin(&request);
    waiting.end(&request, answered(Some(&NOTHING)));
    assert!(waiting.want(&job("a", "k")[0]));
    assert!(!waiting.want(&job("b", "k")[0]), "it had no room for these");
    // Another claim, about the other queue only, leaves it waiting in the first.
    let other = ClaimRequest {
        queues: vec![QueueShare { queue: Name::new("b").unwrap(), limit: 1 }],
        ..request.clone()
    };
    waiting.begin(&other);
    assert!(!waiting.want(&job("a", "k")[0]), "it does not wait while it asks");
    waiting.end(&other, answered(None));
    assert!(waiting.want(&job("a", "k")[0]));
    assert!(!waiting.want(&job("b", "k")[0]), "there was no answer");
    waiting.begin(&request);
    waiting.end(&request, Ended { took: Duration::from_secs(1), ..answered(Some(&NOTHING)) });
    assert!(!waiting.want(&job("a", "k")[0]), "it would hold up an enqueue");
}

#[test]
fn who_keeps_not_coming_is_waited_for_ever_less_until_it_comes() {
    let (mut waiting, request, job) = (Waiting::default(), request("q"), job("q", "k"));
    let queues = [Name::new("q").unwrap()];
    // How many claims it takes until it counts.
    let mut claims_until_wanted = || {
        let claim = |waiting: &mut Waiting| {
            waiting.begin(&request);
            waiting.end(&request, answered(Some(&NOTHING)));
            waiting.want(&job[0])
        };
        let claims = (1..).find(|_| claim(&mut waiting)).unwrap();
        waiting.penalize(&queues);
        claims
    };
    let counts: Vec<i32> = (0..10).map(|_| claims_until_wanted()).collect();
    assert_eq!(counts, [1, 1, 2, 3, 5, 9, 17, 33, 65, 65]);
    waiting.begin(&request);
    waiting.end(&request, Ended { is_along: true, ..answered(Some(&NOTHING)) });
    assert!(waiting.want(&job[0]), "it has come");
}
