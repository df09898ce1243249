//! A store as an earlier program left it. [`write()`] fills an empty store with a job of every state and shape. What it left
//! is kept beside each store's tests, one file per layout, and is never written anew: every later program opens it,
//! finds all of it ([`check`]) and works it off without loss ([`drain`]).

use std::time::{Duration, SystemTime};

use windlass_core::clock::Timestamp;
use windlass_core::job::ClaimedJob;
use windlass_core::outcome::Ending;
use windlass_core::queue::{Keep, QueueConfig};
use windlass_core::retry::{Jitter, Policy};
use windlass_core::store::{Amended, ClaimRequest, NewLease, Progress, SharedStore};
use windlass_core::{Bytes, Fence, JobId, LeaseId, NewJob, Options, Outcome, State};

use crate::scene::{
    Scene, begin, completed, failed, failed_for_good, name, one, seconds, settlement, share, taken_back,
};

const QUEUES: [&str; 2] = ["default", "other"];
const KINDS: [&str; 2] = ["work", "mail.send"];
/// The first instant of the year 2100, in seconds of the Unix time.
const FAR: u64 = 4_102_444_800;

/// The jobs, each named after what it is when the program ends. Their order is the order in which they were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Ready, and with every option that a job can have.
    Full,
    /// Ready, without any.
    Plain,
    /// Ready, with a payload that is long and is not text.
    Long,
    /// Scheduled for the year 2100.
    Far,
    /// Scheduled for an instant that has come when the next program looks.
    Due,
    /// Its expiry has come when the next program looks.
    Expiring,
    /// Failed once and waits for the next attempt.
    Retried,
    /// Given back by its worker.
    Returned,
    /// Taken back from a worker that was lost.
    Reaped,
    Completed,
    Dead,
    Cancelled,
    /// Runs, has begun and has reported, on a worker that is gone.
    Begun,
    /// Claimed by that worker, and not begun.
    Claimed,
    /// Runs there and is asked to stop.
    Stopping,
}

impl Shape {
    const ALL: [Self; 15] = [
        Self::Full,
        Self::Plain,
        Self::Long,
        Self::Far,
        Self::Due,
        Self::Expiring,
        Self::Retried,
        Self::Returned,
        Self::Reaped,
        Self::Completed,
        Self::Dead,
        Self::Cancelled,
        Self::Begun,
        Self::Claimed,
        Self::Stopping,
    ];

    fn id(self) -> JobId {
        let mut bytes = *b"\x01\x8f\x00\x00\x00\x00\x70\x00\x80\x00\x00\x00\x00\x00\x00\x00";
        bytes[15] = self as u8 + 1;
        JobId::from_bytes(bytes)
    }

    fn job(self) -> NewJob {
        let retry = Policy::fixed(5, seconds(60)).jitter(Jitter::None);
        let options = Options::new().retry(retry);
        let (kind, payload, options) = match self {
            Self::Full => (
                KINDS[1],
                Bytes::from_static("{\"to\":\"ada «ä» 日\"}".as_bytes()),
                options
                    .queue(QUEUES[1])
                    .priority(7)
                    .timeout(seconds(90))
                    .max_stalls(9)
                    .tag("monthly")
                    .tag("a:b")
                    .meta("tenant", "acme")
                    .expires_in(seconds(FAR)),
            ),
            Self::Long => {
                (KINDS[0], (0..5_000u32).map(|at| (at % 251) as u8).collect(), options.queue(QUEUES[1]))
            }
            Self::Far => (KINDS[0], Bytes::new(), options.at(SystemTime::UNIX_EPOCH + seconds(FAR))),
            Self::Due => (KINDS[0], Bytes::from_static(b"1"), options.delay(Duration::from_millis(1))),
            Self::Expiring => {
                let never_begun = options.delay(seconds(FAR)).expires_in(Duration::from_millis(1));
                (KINDS[0], Bytes::from_static(b"2"), never_begun)
            }
            _ => (KINDS[0], Bytes::from(format!("{{\"n\":{}}}", self as u8)), options),
        };
        NewJob::new(kind, payload, options).expect("fixtures write proper jobs").with_id(self.id())
    }

    /// In which states the next program may find it.
    fn states(self) -> &'static [State] {
        match self {
            Self::Full | Self::Plain | Self::Long | Self::Returned => &[State::Ready],
            Self::Far => &[State::Scheduled],
            Self::Due | Self::Retried | Self::Reaped => &[State::Scheduled, State::Ready],
            Self::Expiring => &[State::Scheduled, State::Dead],
            Self::Completed => &[State::Completed],
            Self::Dead => &[State::Dead],
            Self::Cancelled => &[State::Cancelled],
            Self::Begun | Self::Claimed | Self::Stopping => &[State::Running],
        }
    }

    /// How often it was claimed.
    fn fence(self) -> u64 {
        match self {
            Self::Full
            | Self::Plain
            | Self::Long
            | Self::Far
            | Self::Due
            | Self::Expiring
            | Self::Cancelled => 0,
            _ => 1,
        }
    }
}

fn claim(lease: LeaseId, limit: u32) -> ClaimRequest {
    ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: QUEUES.map(|queue| share(queue, limit)).to_vec(),
        kinds: KINDS.map(name).to_vec(),
        limit,
        at_once: limit,
        bytes: usize::MAX,
    }
}

async fn open(scene: &Scene, worker: &str) -> LeaseId {
    let (queues, kinds) = (QUEUES.map(name).to_vec(), KINDS.map(name).to_vec());
    let lease =
        NewLease { id: LeaseId::new(), worker: worker.to_owned(), ttl: seconds(3_600), queues, kinds };
    scene.store.open(&lease).await.expect("a lease opens");
    lease.id
}

/// Adds a job that is ready and claims it.
async fn running(scene: &Scene, lease: LeaseId, shape: Shape) -> ClaimedJob {
    scene.enqueue(shape.job()).await;
    let job = one(scene.ask(&claim(lease, 1)).await.0);
    assert_eq!(job.id, shape.id());
    job
}

/// Fills an empty store.
pub async fn write(store: SharedStore) {
    let scene = Scene { store };
    let mut config = QueueConfig::default();
    (config.retention.dead, config.caps.payload) = (Keep::count(77), 70_000);
    scene.store.define(&name(QUEUES[1]), &config).await.expect("a queue is defined");
    let lease = open(&scene, "gone «1»").await;
    for (shape, outcome) in [
        (Shape::Completed, Outcome::Completed { output: Some(Bytes::from_static(b"[42]")) }),
        (Shape::Dead, failed_for_good()),
    ] {
        let job = running(&scene, lease, shape).await;
        scene.settle(&job, outcome).await;
    }
    let stopping = running(&scene, lease, Shape::Stopping).await;
    assert_eq!(scene.cancel(stopping.id).await, Amended::Done(State::Running));
    let begun = running(&scene, lease, Shape::Begun).await;
    scene.begin(&begun).await;
    let report = Progress {
        queue: begun.queue.clone(),
        id: begun.id,
        fence: begun.fence,
        progress: Bytes::from_static(b"\"half\""),
    };
    scene.store.progress([report].into()).await.expect("progress is recorded");
    running(&scene, lease, Shape::Claimed).await;
    // A worker that is lost while the others go on: a lease that is closed with a job is one that has run out.
    let lost = open(&scene, "lost").await;
    let reaped = running(&scene, lost, Shape::Reaped).await;
    scene.store.begin([begin(&reaped)].into()).await.expect("beginning is answered");
    scene.store.close(lost).await.expect("a lease closes");
    let lost = one(scene.lost().await);
    scene.store.reap([taken_back(&lost)].into()).await.expect("reaping is answered");
    let retried = running(&scene, lease, Shape::Retried).await;
    scene.settle(&retried, failed()).await;
    let returned = running(&scene, lease, Shape::Returned).await;
    scene.settle_raw(settlement(&returned, Outcome::Returned)).await;
    scene.enqueue(Shape::Cancelled.job()).await;
    scene.cancel(Shape::Cancelled.id()).await;
    for shape in [Shape::Full, Shape::Plain, Shape::Long, Shape::Far, Shape::Expiring, Shape::Due] {
        scene.enqueue(shape.job()).await;
    }
    // The worker is gone with what it had.
    scene.store.close(lease).await.expect("a lease closes");
    check(scene.store).await;
}

/// Finds every job as it was left.
///
/// # Panics
///
/// If something is missing or reads differently.
pub async fn check(store: SharedStore) {
    let scene = Scene { store };
    for shape in Shape::ALL {
        let (found, new) = (scene.get(shape.id()).await, shape.job());
        assert!(shape.states().contains(&found.state), "{shape:?} is {}", found.state);
        assert_eq!(found.unreadable, None, "{shape:?}");
        assert_eq!(
            (&found.queue, &found.kind, &found.payload),
            (&new.queue, &new.kind, &new.payload),
            "{shape:?}"
        );
        assert_eq!(
            (found.priority, &found.spec, &found.tags),
            (new.priority, &new.spec, &new.tags),
            "{shape:?}"
        );
        assert_eq!(found.fence, shape.fence(), "{shape:?}");
        let ending = found.attempts.last().and_then(|attempt| attempt.ending);
        let expected = match shape {
            Shape::Completed => Some(Ending::Completed),
            Shape::Dead => Some(Ending::FailedForGood),
            Shape::Retried => Some(Ending::Failed),
            Shape::Returned => Some(Ending::Returned),
            Shape::Reaped => Some(Ending::Stalled),
            _ => None,
        };
        assert_eq!(ending, expected, "{shape:?}");
    }
    let far = scene.get(Shape::Far.id()).await;
    assert_eq!(far.due_at, Timestamp::from(SystemTime::UNIX_EPOCH + seconds(FAR)));
    assert_eq!(scene.get(Shape::Completed.id()).await.output.as_deref(), Some(&b"[42]"[..]));
    assert_eq!(scene.get(Shape::Dead.id()).await.last_error(), Some("never again"));
    let begun = scene.get(Shape::Begun.id()).await;
    assert_eq!((begun.has_begun, begun.progress.as_deref()), (true, Some(&b"\"half\""[..])));
    assert_eq!(begun.attempts[0].worker, "gone «1»");
    assert!(scene.get(Shape::Stopping.id()).await.cancel_requested);
    assert_eq!(scene.get(Shape::Reaped.id()).await.counters.stalls, 1);
    let queues = scene.store.queues(None, 10).await.expect("queues can be listed");
    let other = queues.iter().find(|queue| queue.name.as_str() == QUEUES[1]).expect("the queue is there");
    assert_eq!((other.config.retention.dead, other.config.caps.payload), (Keep::count(77), 70_000));
    scene.assert_counts().await;
}

/// Works off what can be worked off, once each, and leaves the counts true.
///
/// # Panics
///
/// If a job is lost, comes twice, or does not come.
pub async fn drain(store: SharedStore) {
    let scene = Scene { store };
    let lost = scene.lost().await;
    assert_eq!(lost.len(), 3, "the worker is gone, and so are its jobs: {lost:?}");
    let back: Vec<_> = lost.iter().map(taken_back).collect();
    scene.store.reap(back.as_slice().into()).await.expect("reaping is answered");
    // What stalled rests before it starts again; what was to stop has ended.
    for shape in [Shape::Begun, Shape::Reaped, Shape::Retried] {
        scene.retry(shape.id()).await;
    }
    let lease = open(&scene, "next").await;
    let mut done = Vec::new();
    loop {
        let (jobs, next_due) = scene.ask(&claim(lease, 4)).await;
        match next_due {
            _ if !jobs.is_empty() => {}
            // Written by this very program.
            Some(wait) if wait < seconds(1) => tokio::time::sleep(wait).await,
            _ => break,
        }
        for job in &jobs {
            assert_eq!(scene.settle(job, completed()).await, State::Completed);
            done.push(job.id);
        }
    }
    done.sort_unstable();
    let ready = |shape: &Shape| {
        !matches!(
            shape,
            Shape::Far
                | Shape::Expiring
                | Shape::Completed
                | Shape::Dead
                | Shape::Cancelled
                | Shape::Stopping
        )
    };
    let mut expected: Vec<_> = Shape::ALL.into_iter().filter(ready).map(Shape::id).collect();
    expected.sort_unstable();
    assert_eq!(done, expected);
    assert_eq!(scene.state(Shape::Expiring.id()).await, State::Dead);
    assert_eq!(scene.state(Shape::Stopping.id()).await, State::Cancelled);
    assert_eq!(scene.retry(Shape::Dead.id()).await, Amended::Done(State::Ready));
    assert_eq!(scene.cancel(Shape::Far.id()).await, Amended::Done(State::Cancelled));
    assert_eq!(one(scene.ask(&claim(lease, 4)).await.0).id, Shape::Dead.id());
    scene.assert_counts().await;
}
