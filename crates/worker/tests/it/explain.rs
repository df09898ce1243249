//! Why a job is where it is: every state and every cause, made on the memory store by hand, under a clock that stands.

mod held;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::ManualClock;
use windlass_core::outcome::Failure;
use windlass_core::queue::{KeyRules, QueueConfig, RULES, Rate};
use windlass_core::store::{Begin, ClaimAnswer, ClaimRequest, NewLease, Progress, QueueShare, Settlement};
use windlass_core::unique::Unique;
use windlass_core::{ClaimedJob, Fence, JobId, LeaseId, Name, NewJob, Options, Outcome, Store, judge};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Cause, Client, Pausing, Why};

const MINUTE: Duration = Duration::from_secs(60);

/// A store, its clock, and a worker's hand.
struct Scene {
    memory: Arc<MemoryStore>,
    store: Arc<dyn Store>,
    clock: ManualClock,
    client: Client,
}

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

impl Scene {
    fn new() -> Self {
        let clock = ManualClock::default();
        let memory = Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())));
        let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(&memory);
        let client = Client::new(Arc::clone(&store));
        Self { memory, store, clock, client }
    }

    /// One with a worker for kind `k` of queue `default`.
    async fn served() -> (Self, LeaseId) {
        let scene = Self::new();
        let lease = scene.worker("w", &["default"], &["k"]).await;
        (scene, lease)
    }

    async fn enqueue(&self, options: Options) -> JobId {
        let job = NewJob::new("k", "{}", options).unwrap();
        let id = job.id;
        self.client.enqueue_new(job).await.unwrap();
        id
    }

    async fn worker(&self, worker: &str, queues: &[&str], kinds: &[&str]) -> LeaseId {
        let names = |names: &[&str]| names.iter().map(|text| name(text)).collect();
        let lease = NewLease {
            id: LeaseId::new(),
            worker: worker.to_owned(),
            ttl: MINUTE,
            queues: names(queues),
            kinds: names(kinds),
        };
        self.store.open(&lease).await.unwrap();
        lease.id
    }

    async fn claim(&self, lease: LeaseId, limit: u32) -> Vec<ClaimedJob> {
        let request = ClaimRequest {
            lease,
            nonce: Fence::nonce(),
            queues: vec![QueueShare { queue: name("default"), limit }],
            kinds: vec![name("k")],
            limit,
            at_once: limit,
            bytes: usize::MAX,
        };
        match self.store.claim(request).await.unwrap() {
            ClaimAnswer::Jobs { jobs, .. } => jobs,
            ClaimAnswer::LeaseLost => panic!("the lease lives"),
        }
    }

    async fn settle(&self, job: &ClaimedJob, outcome: Outcome) {
        let transition = judge(&job.facts, outcome, 0.5);
        let settlement = Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition };
        self.store.settle([settlement].into()).await.unwrap();
    }

    async fn change(&self, change: impl Fn(&mut QueueConfig)) {
        self.client.queue("default").unwrap().change(change).await.unwrap();
    }

    async fn causes(&self, id: JobId) -> Vec<Cause> {
        let explanation = self.client.explain(id).await.unwrap().unwrap();
        assert_eq!(explanation.job.id, id);
        assert_eq!(explanation.now, self.store.now().await.unwrap(), "by the store's clock");
        explanation.causes
    }

    /// The words of the causes.
    async fn why(&self, id: JobId) -> Vec<&'static str> {
        self.causes(id).await.iter().map(|cause| cause.why.name()).collect()
    }
}

fn failure(text: &str) -> Failure {
    Failure::error(text)
}

#[tokio::test]
async fn an_id_that_the_store_does_not_have_is_not_explained() {
    assert_eq!(Scene::new().client.explain(JobId::new()).await.unwrap(), None);
}

#[tokio::test]
async fn a_job_waits_for_its_time_and_then_for_a_worker() {
    let scene = Scene::new();
    let id = scene.enqueue(Options::new().delay(MINUTE)).await;
    assert_eq!(scene.why(id).await, ["not_due", "no_worker"], "what will keep it then, too");
    scene.worker("w", &["default"], &["k"]).await;
    assert_eq!(scene.why(id).await, ["not_due"]);
    scene.clock.advance(MINUTE / 2);
    scene.client.store().promote(9).await.unwrap();
    assert!(scene.causes(id).await[0].sentence.contains("(in 30s)"));
    scene.clock.advance(MINUTE / 2);
    scene.worker("v", &["default"], &["k"]).await;
    assert_eq!(scene.why(id).await, ["overdue", "ready"]);
    scene.client.store().promote(9).await.unwrap();
    assert_eq!(scene.why(id).await, ["ready"]);
    assert!(scene.causes(id).await[0].sentence.ends_with("v (has 0 jobs)"), "w is lost by now");
}

#[tokio::test]
async fn workers_that_are_missing_are_told_from_handlers_that_are() {
    let scene = Scene::new();
    let id = scene.enqueue(Options::new()).await;
    assert_eq!(scene.why(id).await, ["no_worker"]);
    assert!(scene.causes(id).await[0].sentence.ends_with("knows none at all"));
    scene.worker("elsewhere", &["mail"], &["k"]).await;
    assert!(scene.causes(id).await[0].sentence.ends_with("the store knows elsewhere: mail"));
    scene.worker("other", &["default"], &["mail.send"]).await;
    let cause = scene.causes(id).await.remove(0);
    assert!(matches!(&cause.why, Why::NoHandler { workers } if workers[0].worker == "other"), "{cause:?}");
    scene.worker("w", &["default"], &["k"]).await;
    assert_eq!(scene.why(id).await, ["ready"]);
}

#[tokio::test]
async fn pauses_say_who_why_and_until_when() {
    let (scene, _) = Scene::served().await;
    scene.change(|config| config.keys = Some(KeyRules::default())).await;
    let id = scene.enqueue(Options::new().key("acme")).await;
    let queue = scene.client.queue("default").unwrap();
    queue.pause(Pausing::new().by("ada").why("the mail server is ill")).await.unwrap();
    queue.pause_kind("k", Pausing::new().for_time(MINUTE)).await.unwrap();
    queue.pause_key("acme", Pausing::new()).await.unwrap();
    let causes = scene.causes(id).await;
    let sentences: Vec<_> = causes.iter().map(|cause| cause.sentence.as_str()).collect();
    assert_eq!(
        sentences,
        [
            "queue default is paused by ada (the mail server is ill), until it is resumed",
            "kind k is paused, until 2030-01-01T00:01:00.000000Z (in 1m)",
            "key acme is paused, until it is resumed",
        ]
    );
    assert_eq!(causes[2].remedy.as_deref(), Some("windlass queues resume default --key acme"));
    queue.resume().await.unwrap();
    queue.resume_kind("k").await.unwrap();
    queue.resume_key("acme").await.unwrap();
    assert_eq!(scene.why(id).await, ["ready"]);
}

#[tokio::test]
async fn limits_of_the_queue_and_of_a_key_are_told_apart() {
    let (scene, lease) = Scene::served().await;
    scene.change(|config| config.keys = Some(KeyRules::default())).await;
    let first = scene.enqueue(Options::new().key("acme")).await;
    let id = scene.enqueue(Options::new().key("acme")).await;
    assert_eq!(scene.why(id).await, ["behind"]);
    let claimed = scene.claim(lease, 1).await;
    assert_eq!(claimed[0].id, first);
    scene.change(|config| config.concurrency = Some(1)).await;
    assert_eq!(scene.why(id).await, ["queue_concurrency"]);
    let concurrency = KeyRules { concurrency: Some(1), ..KeyRules::default() };
    scene.change(|config| (config.concurrency, config.keys) = (None, Some(concurrency.clone()))).await;
    let cause = scene.causes(id).await.remove(0);
    assert!(matches!(&cause.why, Why::KeyConcurrency { running, .. } if *running == [first]), "{cause:?}");
    let rate = KeyRules { rate: Some(Rate::new(1, MINUTE)), ..KeyRules::default() };
    scene.change(|config| config.keys = Some(rate.clone())).await;
    let cause = scene.causes(id).await.remove(0);
    assert!(matches!(&cause.why, Why::KeyRate { until: Some(_), .. }), "{cause:?}");
    let other = scene.enqueue(Options::new().key("other")).await;
    assert_eq!(scene.why(other).await, ["ready"], "it has started none");
}

#[tokio::test]
async fn the_rate_of_a_queue_says_until_when() {
    let (scene, lease) = Scene::served().await;
    scene.change(|config| config.rate = Some(Rate::new(1, MINUTE))).await;
    scene.enqueue(Options::new()).await;
    let id = scene.enqueue(Options::new()).await;
    assert_eq!(scene.claim(lease, 2).await.len(), 1);
    let cause = scene.causes(id).await.remove(0);
    let Why::QueueRate { until: Some(until), jobs: 1, .. } = cause.why else { panic!("{cause:?}") };
    assert!(until > scene.store.now().await.unwrap());
}

#[tokio::test]
async fn a_rule_that_this_program_does_not_know_is_told() {
    let (scene, _) = Scene::served().await;
    let id = scene.enqueue(Options::new()).await;
    scene.memory.use_rule(&name("default"), RULES + 1);
    assert_eq!(scene.why(id).await, ["unknown_rules"]);
    let before = scene.client.queue("default").unwrap().definition().await.unwrap();
    assert_eq!(before, QueueConfig::default(), "and nothing was changed");
}

#[tokio::test]
async fn the_place_in_the_line_follows_priority_and_age() {
    let (scene, lease) = Scene::served().await;
    let last = scene.enqueue(Options::new()).await;
    for _ in 0..3 {
        scene.enqueue(Options::new().priority(5)).await;
    }
    let behind = async |id| match scene.causes(id).await.remove(0).why {
        Why::Behind { at_least, at_most, estimate, .. } => (at_least, at_most, estimate),
        other => panic!("{other:?}"),
    };
    assert_eq!(behind(last).await, (3, 3, None));
    scene.change(|config| config.aging = Some(Duration::from_millis(1))).await;
    scene.clock.advance(MINUTE / 4);
    scene.enqueue(Options::new().priority(5)).await;
    assert_eq!(behind(last).await.0, 3, "what comes later than its levels are worth is not ahead");
    scene.change(|config| config.aging = None).await;
    assert_eq!(behind(last).await.0, 4);
    for job in scene.claim(lease, 3).await {
        scene.settle(&job, Outcome::Completed { output: None }).await;
    }
    scene.clock.advance(Duration::from_secs(30));
    let (ahead, _, estimate) = behind(last).await;
    assert_eq!((ahead, estimate), (1, Some(Duration::from_secs(10))), "three completed in the last 30 s");
}

#[tokio::test]
async fn a_long_line_is_said_within_bounds() {
    let (scene, _) = Scene::served().await;
    let last = scene.enqueue(Options::new()).await;
    let jobs = |count, priority| -> Vec<NewJob> {
        let job = || NewJob::new("k", "{}", Options::new().priority(priority)).unwrap();
        std::iter::repeat_with(job).take(count).collect()
    };
    scene.store.enqueue(jobs(200, 5).into()).await.unwrap();
    scene.store.enqueue(jobs(900, -5).into()).await.unwrap();
    let cause = scene.causes(last).await.remove(0);
    let Why::Behind { at_least, at_most, .. } = cause.why else { panic!("{cause:?}") };
    assert_eq!((at_least, at_most), (100, 200), "1,000 of 1,101 are looked at");
}

#[tokio::test]
async fn a_running_job_says_which_worker_has_it() {
    let (scene, lease) = Scene::served().await;
    let id = scene.enqueue(Options::new().timeout(MINUTE)).await;
    let job = scene.claim(lease, 1).await.remove(0);
    let cause = scene.causes(id).await.remove(0);
    assert!(matches!(&cause.why, Why::Held { has_begun: false, progress: None, .. }), "{cause:?}");
    scene.store.begin([Begin { queue: job.queue.clone(), id, fence: job.fence }].into()).await.unwrap();
    let report = Progress { queue: job.queue.clone(), id, fence: job.fence, progress: "40".into() };
    scene.store.progress([report].into()).await.unwrap();
    scene.client.cancel(id).await.unwrap();
    assert_eq!(scene.why(id).await, ["held", "cancel_requested"]);
    let cause = scene.causes(id).await.remove(0);
    let Why::Held { worker, has_begun, progress, timeout, lease_expires_at, .. } = cause.why else {
        panic!()
    };
    assert_eq!((worker.as_str(), has_begun, progress.as_deref()), ("w", true, Some("40")));
    assert_eq!(
        (timeout, lease_expires_at),
        (Some(MINUTE), Some(scene.store.now().await.unwrap().plus(MINUTE)))
    );
    scene.clock.advance(MINUTE);
    assert_eq!(scene.why(id).await, ["lease_lost", "cancel_requested"]);
    let cause = scene.causes(id).await.remove(0);
    assert!(cause.remedy.unwrap().starts_with("start any worker"), "{}", cause.sentence);
    scene.worker("v", &["other"], &["k"]).await;
    let cause = scene.causes(id).await.remove(0);
    assert!(
        cause.sentence.ends_with("any of v (has 0 jobs) takes it back within seconds"),
        "{}",
        cause.sentence
    );
}

#[tokio::test]
async fn a_job_that_was_lost_says_so_while_it_waits() {
    let (scene, lease) = Scene::served().await;
    let id = scene.enqueue(Options::new()).await;
    let job = scene.claim(lease, 1).await.remove(0);
    scene.store.begin([Begin { queue: job.queue.clone(), id, fence: job.fence }].into()).await.unwrap();
    scene.settle(&job, Outcome::Stalled { worker: "w".into() }).await;
    assert_eq!(scene.why(id).await, ["retry"]);
    assert!(scene.causes(id).await[0].sentence.contains("was lost with its worker"));
    scene.client.retry(id).await.unwrap();
    assert_eq!(scene.why(id).await, ["stalled_before", "ready"]);
}

#[tokio::test]
async fn a_retry_says_what_went_wrong_and_when_it_comes() {
    let (scene, lease) = Scene::served().await;
    let id = scene.enqueue(Options::new()).await;
    let job = scene.claim(lease, 1).await.remove(0);
    scene.settle(&job, Outcome::RetryAfter { after: MINUTE, failure: failure("busy") }).await;
    let cause = scene.causes(id).await.remove(0);
    assert_eq!(
        cause.sentence,
        "it is tried again at 2030-01-01T00:01:00.000000Z (in 1m); attempt 1 of 25 failed: busy"
    );
    assert_eq!(cause.remedy, Some(format!("wait, or let it start now: windlass jobs retry {id}")));
    scene.client.retry(id).await.unwrap();
    let job = scene.claim(lease, 1).await.remove(0);
    scene.settle(&job, Outcome::Snooze { after: MINUTE }).await;
    assert_eq!(scene.why(id).await, ["retry"]);
    assert!(scene.causes(id).await[0].sentence.starts_with("its handler asked to come back later"));
}

#[tokio::test]
async fn an_expiry_that_has_passed_is_told_before_a_claim_finds_it() {
    let (scene, _) = Scene::served().await;
    let id = scene.enqueue(Options::new().expires_in(MINUTE / 2)).await;
    assert_eq!(scene.why(id).await, ["ready"]);
    scene.clock.advance(MINUTE / 2);
    assert_eq!(scene.why(id).await, ["expired"]);
    scene.store.promote(9).await.unwrap();
    let cause = scene.causes(id).await.remove(0);
    assert!(cause.sentence.contains("it did not start before its expiry"), "{}", cause.sentence);
}

#[tokio::test]
async fn an_end_says_how_and_what_a_retry_would_do() {
    let (scene, lease) = Scene::served().await;
    let unique = || Options::new().unique(Unique::key("order 7"));
    let dead = scene.enqueue(unique()).await;
    let job = scene.claim(lease, 1).await.remove(0);
    scene.settle(&job, Outcome::Fail { failure: failure("no such user") }).await;
    let cause = scene.causes(dead).await.remove(0);
    assert!(
        cause.sentence.contains("attempt 1 of 25 failed for good; last error: no such user"),
        "{cause:?}"
    );
    assert!(cause.remedy.unwrap().ends_with("it begins anew, with 25 attempts"));
    let holder = scene.enqueue(unique()).await;
    let cause = scene.causes(dead).await.remove(0);
    assert!(matches!(cause.why, Why::Dead { held_by: Some(by), .. } if by == holder), "{cause:?}");
    scene.client.cancel(holder).await.unwrap();
    assert!(matches!(scene.causes(dead).await.remove(0).why, Why::Dead { held_by: None, .. }));
    assert_eq!(scene.why(holder).await, ["cancelled"]);

    let done = scene.enqueue(Options::new()).await;
    let job = scene.claim(lease, 1).await.remove(0);
    scene.settle(&job, Outcome::Completed { output: None }).await;
    let cause = scene.causes(done).await.remove(0);
    assert_eq!(cause.remedy, None);
    assert!(
        cause.sentence.contains("on worker w with attempt 1; kept until 2030-01-02T"),
        "{}",
        cause.sentence
    );
}
