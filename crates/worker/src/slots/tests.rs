//! The slots beside a store, one claim at a time, without the parts that drive them.

use std::sync::Arc;

use windlass_core::queue::{GATES_LOOKED_MAX, KeyRules, QueueConfig, Rate};
use windlass_core::store::{ClaimAnswer, NewLease};
use windlass_core::{Bytes, NewJob, Options, State};
use windlass_store_memory::MemoryStore;

use super::*;
use crate::client::Client;
use crate::ctx::{Claimed, Defaults};
use crate::observe::Observed;

/// A store, and the slots of a worker that serves it.
struct Scene {
    client: Client,
    slots: Slots,
    queues: Vec<Name>,
    lease: LeaseId,
    /// The queues of the attempts that run, by slot.
    running: Vec<(usize, Name)>,
    /// Whether the store says which limits are far.
    tells_ample: bool,
}

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

fn shared(queue: &str) -> QueueSlots {
    QueueSlots { queue: name(queue), reserved: 0, limit: usize::MAX, weight: 1 }
}

fn of_rate() -> QueueConfig {
    QueueConfig { rate: Some(Rate::new(1_000_000, Duration::from_secs(1))), ..QueueConfig::default() }
}

impl Scene {
    async fn new(concurrency: usize, queues: Vec<QueueSlots>) -> Self {
        let config = Config { concurrency, queues, prefetch_max: 100 };
        let (client, queues) = (Client::new(Arc::new(MemoryStore::new())), config.queue_names());
        let mut slots = Slots::new(config, Instant::now());
        let lease = LeaseId::new();
        let (ttl, kinds) = (Duration::from_secs(60), Vec::new());
        let new = NewLease { id: lease, worker: "w".into(), ttl, queues: queues.clone(), kinds };
        client.store().open(&new).await.unwrap();
        slots.lease_opened(lease);
        Self { client, slots, queues, lease, running: Vec::new(), tells_ample: false }
    }

    async fn enqueue(&self, queue: &str, count: usize) {
        let job = || NewJob::new(name("k"), Bytes::new(), Options::new().queue(queue)).unwrap();
        self.client.store().enqueue((0..count).map(|_| job()).collect()).await.unwrap();
    }

    async fn define(&self, queue: &str, config: &QueueConfig) {
        self.client.store().define(&name(queue), config).await.unwrap();
    }

    /// One claim. Answers what was asked of each queue and how many jobs came, or nothing if there is no reason to ask.
    async fn claim(&mut self) -> Option<(Vec<(String, u32)>, usize)> {
        let plan = self.slots.plan(Instant::now())?;
        let request = plan.request(&self.queues, &[name("k")]);
        let asked = request.queues.iter().map(|share| (share.queue.to_string(), share.limit)).collect();
        let ClaimAnswer::Jobs { jobs, next_due, sick, limited, ample, .. } =
            self.client.store().claim(request).await.unwrap()
        else {
            panic!("the lease is held")
        };
        let claimed = Claimed { lease: self.lease, sent: Instant::now(), at: Instant::now() };
        let jobs: Vec<Ctx> = jobs
            .into_iter()
            .map(|job| Ctx::new(job, self.client.clone(), Defaults::default(), claimed, Observed::default()))
            .collect();
        let (count, is_partial) = (jobs.len(), next_due == Some(Duration::ZERO));
        let (sick, limited, ample) = (&sick, &limited, if self.tells_ample { &ample[..] } else { &[] });
        let answer = Answer { jobs: &jobs, sick, limited, ample, is_partial, unreadable: &[] };
        self.slots.learn(&plan, &answer, |_queue| None);
        let rest = self.slots.take_in(self.lease, jobs);
        assert!(rest.is_empty(), "all are taken in");
        let starts = self.slots.fill();
        self.slots.claim_ended();
        self.note(starts);
        Some((asked, count))
    }

    fn note(&mut self, starts: Vec<Start>) {
        self.running.extend(starts.into_iter().map(|start| (start.slot, start.ctx.queue().clone())));
    }

    /// Ends the attempt that has run longest, and starts what can start there.
    fn finish(&mut self) -> Freed {
        let (slot, _) = self.running.remove(0);
        let freed = self.slots.finish(slot);
        let starts = self.slots.fill();
        self.note(starts);
        freed
    }

    /// How many jobs the first queue has in a state.
    async fn count(&self, state: State) -> u64 {
        self.client.store().queues(None, 1).await.unwrap()[0].counts.of(state)
    }

    /// How many attempts of a queue run.
    fn runs(&self, queue: &str) -> usize {
        self.running.iter().filter(|(_, of)| of.as_str() == queue).count()
    }
}

fn asked(queues: &[(&str, u32)]) -> Vec<(String, u32)> {
    queues.iter().map(|(queue, limit)| ((*queue).to_owned(), *limit)).collect()
}

#[tokio::test]
async fn a_queue_with_limits_is_asked_for_free_slots_and_is_never_dry_for_having_filled_them() {
    let mut scene = Scene::new(4, vec![shared("a")]).await;
    scene.define("a", &of_rate()).await;
    scene.enqueue("a", 50).await;
    assert_eq!(scene.claim().await, Some((asked(&[("a", 4)]), 4)));
    // Jobs go fast; what is claimed ahead elsewhere is not claimed here.
    for _ in 0..20 {
        assert_eq!(scene.claim().await, None, "no slot is free");
        assert_eq!(scene.finish(), Freed::AskForMore);
        assert_eq!(scene.claim().await, Some((asked(&[("a", 1)]), 1)), "as soon as a slot is free");
    }
    // What frees while a claim is in flight goes with the next one.
    for _ in 0..3 {
        scene.finish();
    }
    assert_eq!(scene.claim().await, Some((asked(&[("a", 3)]), 3)));
    // To the last one.
    loop {
        while !scene.running.is_empty() {
            scene.finish();
        }
        if scene.claim().await.is_none() {
            break;
        }
    }
    assert_eq!(scene.count(State::Running).await, 50, "all have started, and none is settled here");
}

#[tokio::test]
async fn a_queue_with_more_gates_than_a_claim_asks_is_not_dry() {
    let mut scene = Scene::new(GATES_LOOKED_MAX + 500, vec![shared("a")]).await;
    scene.define("a", &QueueConfig { keys: Some(KeyRules::default()), ..QueueConfig::default() }).await;
    let options = |i: usize| Options::new().queue("a").key(format!("key-{i}"));
    let job = |i| NewJob::new(name("k"), Bytes::new(), options(i)).unwrap();
    scene.client.store().enqueue((0..GATES_LOOKED_MAX + 200).map(job).collect()).await.unwrap();
    assert_eq!(scene.claim().await.map(|(_, given)| given), Some(GATES_LOOKED_MAX));
    assert_eq!(scene.claim().await.map(|(_, given)| given), Some(200), "without waiting for a poll");
    assert_eq!(scene.claim().await, None, "now it is dry");
}

#[tokio::test]
async fn a_queue_may_have_limits_until_the_first_answer() {
    let two = QueueSlots { limit: 2, ..shared("mail") };
    let mut scene = Scene::new(10, vec![two, shared("other")]).await;
    scene.define("mail", &of_rate()).await;
    scene.enqueue("mail", 50).await;
    // However fast they seem to go, no more are claimed than the worker has slots for mail.
    for buffer in &mut scene.slots.buffers {
        buffer.rate = plan::Rate::of(10_000.0, Instant::now());
    }
    scene.claim().await.unwrap();
    assert_eq!((scene.runs("mail"), scene.slots.waiting()), (2, 0));
}

#[tokio::test]
async fn a_queue_without_limits_is_asked_ahead_once_that_is_known() {
    let mut scene = Scene::new(2, vec![shared("a")]).await;
    scene.enqueue("a", 1_000).await;
    assert_eq!(scene.claim().await, Some((asked(&[("a", 2)]), 2)));
    let rate = plan::Rate::of(1_000.0, Instant::now());
    scene.slots.buffers[0].rate = rate;
    let (_, count) = scene.claim().await.unwrap();
    assert!(count > 10, "40 ms at this speed, not {count}");
    // A limit that comes meanwhile is learnt with the next answer.
    scene.define("a", &of_rate()).await;
    scene.slots.hint();
    while scene.slots.waiting() > 0 {
        scene.finish();
    }
    scene.slots.buffers[0].rate = plan::Rate::of(1_000.0, Instant::now());
    assert_eq!(scene.claim().await.unwrap().1, 0, "no slot is free");
    assert_eq!(scene.claim().await, None);
    assert_eq!(scene.finish(), Freed::AskForMore);
    assert_eq!(scene.claim().await, Some((asked(&[("a", 1)]), 1)));
}

#[tokio::test]
async fn a_queue_whose_limits_are_far_is_asked_ahead_until_they_are_near() {
    let mut scene = Scene::new(2, vec![shared("a")]).await;
    scene.tells_ample = true;
    scene.define("a", &of_rate()).await;
    scene.enqueue("a", 1_000).await;
    assert_eq!(scene.claim().await, Some((asked(&[("a", 2)]), 2)));
    scene.slots.buffers[0].rate = plan::Rate::of(1_000.0, Instant::now());
    // Twice as many each time, up to 40 ms at this speed. The store takes them for jobs that can begin.
    for count in [4, 8, 16] {
        assert_eq!(scene.claim().await, Some((asked(&[("a", count)]), count as usize)));
        while scene.slots.waiting() > 0 {
            scene.finish();
        }
        scene.slots.buffers[0].rate = plan::Rate::of(1_000.0, Instant::now());
    }
    let near = Rate::new(200, Duration::from_secs(3_600));
    scene.define("a", &QueueConfig { rate: Some(near), ..QueueConfig::default() }).await;
    scene.slots.hint();
    scene.slots.buffers[0].rate = plan::Rate::of(1_000.0, Instant::now());
    while scene.slots.waiting() > 0 {
        scene.finish();
    }
    scene.claim().await.expect("it may have more");
    while scene.slots.waiting() > 0 {
        scene.finish();
    }
    assert_eq!(scene.claim().await, None, "none to wait for a slot");
    scene.finish();
    assert_eq!(scene.claim().await, Some((asked(&[("a", 1)]), 1)));
}

#[tokio::test]
async fn a_queue_with_limits_that_has_no_more_is_left_alone() {
    let mut scene = Scene::new(4, vec![shared("a")]).await;
    scene.define("a", &of_rate()).await;
    scene.enqueue("a", 3).await;
    assert_eq!(scene.claim().await, Some((asked(&[("a", 4)]), 3)));
    assert_eq!(scene.claim().await, None, "it gave less than could begin");
    assert_eq!(scene.finish(), Freed::Enough);
    scene.slots.hint_in(&name("a"));
    assert_eq!(scene.claim().await, Some((asked(&[("a", 2)]), 0)));
}

fn weighing(queue: &str, weight: u32) -> QueueSlots {
    QueueSlots { weight, ..shared(queue) }
}

impl Scene {
    /// Lets jobs end one by one, with a claim after each end, and counts what starts of each queue.
    async fn starts(&mut self, ends: usize, queues: [&str; 2]) -> [usize; 2] {
        let mut starts = [0; 2];
        for _ in 0..ends {
            let before = queues.map(|queue| self.runs(queue));
            let ended = self.running[0].1.clone();
            self.finish();
            self.claim().await;
            let begun = self.slots.fill();
            self.note(begun);
            for (place, queue) in queues.iter().enumerate() {
                let left = before[place] - usize::from(ended.as_str() == *queue);
                starts[place] += self.runs(queue) - left;
            }
        }
        starts
    }
}

#[tokio::test]
async fn of_every_six_starts_a_queue_of_weight_five_has_five() {
    let mut scene = Scene::new(1, vec![weighing("critical", 5), weighing("low", 1)]).await;
    scene.enqueue("critical", 200).await;
    scene.enqueue("low", 200).await;
    scene.claim().await.unwrap();
    // One slot and no job ahead: each start is a claim of its own.
    for _ in 0..5 {
        assert_eq!(scene.starts(6, ["critical", "low"]).await, [5, 1]);
    }
    // The same with jobs that wait in the buffers.
    for buffer in &mut scene.slots.buffers {
        buffer.rate = plan::Rate::of(1_000.0, Instant::now());
    }
    scene.claim().await.unwrap();
    assert!(scene.slots.waiting() > 12, "{}", scene.slots.waiting());
    for _ in 0..2 {
        assert_eq!(scene.starts(6, ["critical", "low"]).await, [5, 1]);
    }
}

#[tokio::test]
async fn one_claim_for_several_queues_is_split_by_weight() {
    let mut scene = Scene::new(12, vec![weighing("critical", 5), weighing("low", 1)]).await;
    scene.enqueue("critical", 200).await;
    scene.enqueue("low", 200).await;
    assert_eq!(scene.claim().await, Some((asked(&[("critical", 10), ("low", 12)]), 12)));
    assert_eq!((scene.runs("critical"), scene.runs("low")), (10, 2));
}

#[tokio::test]
async fn an_idle_queue_costs_no_slot() {
    let mut scene = Scene::new(12, vec![weighing("critical", 5), weighing("low", 1)]).await;
    scene.enqueue("critical", 200).await;
    assert_eq!(scene.claim().await.unwrap().1, 10);
    assert_eq!(scene.claim().await, Some((asked(&[("critical", 2)]), 2)), "low has none");
    assert_eq!(scene.runs("critical"), 12);
}

#[tokio::test]
async fn a_busy_queue_starves_neither_one_with_limits_nor_a_slow_one() {
    for limits in [of_rate(), QueueConfig::default()] {
        let mut scene = Scene::new(4, vec![shared("busy"), shared("other")]).await;
        scene.define("other", &limits).await;
        scene.enqueue("busy", 1_000).await;
        scene.claim().await.unwrap();
        scene.claim().await;
        assert_eq!(scene.runs("busy"), 4);
        // Jobs of the busy queue always wait here, and those of the other come with a claim only.
        scene.enqueue("other", 100).await;
        scene.slots.hint_in(&name("other"));
        let mut starts = [0; 2];
        for _ in 0..20 {
            scene.slots.buffers[0].rate = plan::Rate::of(1_000.0, Instant::now());
            scene.slots.buffers[1].rate = plan::Rate::new(Instant::now());
            scene.slots.buffers[1].finished = 0;
            let two = scene.starts(2, ["busy", "other"]).await;
            starts = [starts[0] + two[0], starts[1] + two[1]];
            assert!(scene.slots.buffers[0].len() > 0 || starts[0] < 8, "busy jobs wait");
        }
        assert!((17..=23).contains(&starts[1]), "each has about half: {starts:?}");
    }
}

#[tokio::test]
async fn a_slot_that_is_held_in_vain_is_given_up() {
    let mut scene = Scene::new(2, vec![shared("busy"), shared("empty")]).await;
    scene.enqueue("busy", 1_000).await;
    scene.claim().await.unwrap();
    while scene.claim().await.is_some() {}
    scene.slots.buffers[0].rate = plan::Rate::of(1_000.0, Instant::now());
    scene.claim().await.unwrap();
    scene.slots.hint_in(&name("empty"));
    scene.finish();
    scene.finish();
    assert_eq!((scene.runs("busy"), scene.slots.buffers[1].held), (1, 1), "a slot waits for the claim");
    assert_eq!(scene.slots.room(&name("empty")), 1);
    scene.claim().await.unwrap();
    let starts = scene.slots.fill();
    scene.note(starts);
    assert_eq!((scene.runs("busy"), scene.slots.buffers[1].held), (2, 0));
    // Nor is one held that no claim can follow for.
    scene.slots.hint_in(&name("empty"));
    scene.finish();
    scene.finish();
    assert_eq!(scene.slots.buffers[1].held, 1);
    scene.slots.lease_retired();
    let starts = scene.slots.fill();
    scene.note(starts);
    assert_eq!((scene.runs("busy"), scene.slots.buffers[1].held), (2, 0));
}

#[tokio::test]
async fn one_claim_is_for_all_slots_that_are_about_to_be_free() {
    let mut scene = Scene::new(4, vec![shared("a")]).await;
    scene.define("a", &of_rate()).await;
    scene.enqueue("a", 50).await;
    scene.claim().await.unwrap();
    assert!(!scene.slots.frees_more(), "none is free");
    scene.finish();
    scene.slots.buffers[0].target = 0;
    assert!(!scene.slots.frees_more(), "its jobs are slow");
    scene.slots.buffers[0].target = 2;
    assert!(scene.slots.frees_more());
    scene.finish();
    assert!(!scene.slots.frees_more(), "enough are free");
}
