//! Flows while movers die, stop and cannot reach their store: in the end everything has come to rest as if nothing had
//! happened. Every seed is a flow and its misfortunes; a failure names it.

mod gather;
mod random;
mod shaky;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::Store;
use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::flow::Status;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, FlowHandle, FlowKeeper, FlowView, Reaper, Worker};

use self::random::{QUEUES, Web};
use self::shaky::{Fate, Shaky};
use super::{part, scene, statuses, work};

const LEASE: Duration = Duration::from_secs(5);
/// Rounds of maintenance after which everything must be at rest: a flow may need two for each of its levels.
const ROUNDS_MAX: u32 = 150;

#[tokio::test]
async fn an_empty_store_costs_the_keeper_nothing() {
    let client = scene();
    let summary = FlowKeeper::new(&client).run_once().await.unwrap();
    assert_eq!((summary.looked, summary.taken, summary.unnoted), (0, 0, 0));
    let mut flow = client.flow("one");
    flow.add(part("one"));
    let flow = flow.submit().await.unwrap();
    work(&client).await;
    assert_eq!(statuses(&flow.view().await.unwrap()), ["completed"]);
}

/// A store, a random flow on it, and the processes that work on that.
struct Trial {
    clock: ManualClock,
    store: Arc<MemoryStore>,
    web: Web,
    flow: FlowHandle,
}

impl Trial {
    async fn new(seed: u64) -> Self {
        Self::by(seed, |store| Arc::clone(store) as _).await.expect("nothing fails")
    }

    /// One whose flow is submitted by a process that sees the store in this way; nothing if no flow came of it.
    async fn by(seed: u64, sees: impl FnOnce(&Arc<MemoryStore>) -> Arc<dyn Store>) -> Option<Self> {
        let clock = ManualClock::at(Timestamp::from_micros(1_000_000_000));
        let store = Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())));
        let raw = Client::new(Arc::clone(&store) as _);
        if seed.is_multiple_of(3) {
            let retention = Retention { completed: Keep::NONE, ..Retention::default() };
            raw.define_queue("other", QueueConfig { retention, ..QueueConfig::default() }).await.unwrap();
        }
        let web = Web::new(raw.clone(), seed);
        let submitter = Client::new(sees(&store));
        let _may_die = tokio::time::timeout(Duration::from_secs(60), web.submit(&submitter)).await;
        // This client moves nothing.
        for queue in QUEUES {
            let home = raw.queue(queue).unwrap().name().clone();
            if let Some(flow) = raw.open_flows(&home, None, 1).await.unwrap().flows.pop() {
                let flow = raw.flow_handle(queue, flow.id).unwrap();
                return Some(Self { clock, store, web, flow });
            }
        }
        assert!(!web.has_begun());
        None
    }

    fn process(&self, seed: u64, odds: u32, fate: Fate) -> Arc<Shaky> {
        let shaky = Shaky::new(&self.store, seed, odds, fate);
        tokio::spawn(serve(Client::new(Arc::clone(&shaky) as _), self.web.clone()));
        shaky
    }

    /// Waits until a process has nothing more to do, or does nothing any more.
    async fn until_quiet(&self, processes: &[Arc<Shaky>]) {
        let calls = || processes.iter().map(|process| process.calls()).sum::<u32>();
        let mut before = u32::MAX;
        while before != calls() && processes.iter().any(|process| process.is_alive()) {
            before = calls();
            // The clock of this runtime moves when nothing else does.
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
    }

    /// Lets maintenance and one process do what is left, and checks what has become of everything.
    async fn comes_to_rest(&self) -> FlowView {
        let client = Client::new(Arc::clone(&self.store) as _);
        let keeper = FlowKeeper::new(&client);
        for _ in 0..ROUNDS_MAX {
            self.clock.advance(2 * LEASE);
            Reaper::new(Arc::clone(&self.store) as Arc<dyn Store>).run_once().await.unwrap();
            keeper.run_once().await.unwrap();
            drained(&client, &self.web).await.unwrap();
            let view = self.flow.view().await.unwrap();
            if view.is_over && self.is_quiet(&client).await {
                self.web.check(&view).await;
                return view;
            }
        }
        panic!("it did not come to rest: {:?}", statuses(&self.flow.view().await.unwrap()));
    }

    /// Whether maintenance has nothing more to look at.
    async fn is_quiet(&self, client: &Client) -> bool {
        let mut is_quiet = true;
        for queue in QUEUES {
            let notes = client.records(queue).unwrap().list("flow-end/", None, 1).await.unwrap();
            is_quiet &= notes.records.is_empty();
        }
        is_quiet
    }
}

async fn drained(client: &Client, web: &Web) -> windlass_worker::Result<u64> {
    let worker = Worker::with_state(client, web.clone()).handle(random::run).lease_unchecked(LEASE);
    let worker = QUEUES.into_iter().fold(worker, |worker, queue| worker.queue(queue, 4));
    Ok(worker.drain().await?.total())
}

/// A process: it works as long as there is something, and looks again later.
async fn serve(client: Client, web: Web) {
    loop {
        let found = drained(&client, &web).await;
        if !matches!(found, Ok(1..)) {
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
    }
}

/// Names the seed of a failure.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {}", self.0);
        }
    }
}

/// Runs each seed in a runtime of its own, which takes what was killed with it. `WINDLASS_SEED` names one to run alone,
/// `WINDLASS_SEEDS` how many times as many to run.
fn for_seeds<F: Future<Output = ()>>(count: u64, run: impl Fn(u64) -> F) {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let all = 0..count * setting("WINDLASS_SEEDS").unwrap_or(1);
    for seed in setting("WINDLASS_SEED").map_or(all, |seed| seed..seed + 1) {
        let _named = Seed(seed);
        fastrand::seed(seed);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap().block_on(run(seed));
    }
}

#[test]
fn calls_that_fail_change_nothing_in_the_end() {
    for_seeds(150, async |seed| {
        let trial = Trial::new(seed).await;
        let processes: Vec<_> =
            (0..3).map(|number| trial.process(seed * 3 + number, 100, Fate::Lives)).collect();
        trial.until_quiet(&processes).await;
        processes.iter().for_each(|process| process.heal());
        trial.comes_to_rest().await;
    });
}

#[test]
fn a_mover_may_die_after_each_of_its_calls() {
    for_seeds(400, async |seed| {
        // Each flow many times, and each time the first process dies a little later.
        let trial = Trial::new(seed / 40).await;
        let killed =
            trial.process(seed, 0, Fate::Killed(1 + (seed % 40) as u32 * 5 + (seed / 40) as u32 % 5));
        trial.until_quiet(&[killed]).await;
        trial.comes_to_rest().await;
    });
}

#[test]
fn maintenance_alone_moves_flows_to_their_end() {
    for_seeds(40, async |seed| {
        let trial = Trial::new(seed).await;
        let mute = [trial.process(seed, 0, Fate::Mute), trial.process(seed, 50, Fate::Mute)];
        trial.until_quiet(&mute).await;
        mute.iter().for_each(|process| process.heal());
        trial.comes_to_rest().await;
    });
}

#[test]
fn one_that_was_stopped_goes_on_when_all_is_done_and_spoils_nothing() {
    for_seeds(200, async |seed| {
        let trial = Trial::new(seed).await;
        let mut random = fastrand::Rng::with_seed(seed);
        let stopped = trial.process(seed, 0, Fate::Stopped(random.u32(1..200)));
        let second = trial.process(seed + 1, 50, Fate::Killed(random.u32(50..300)));
        trial.until_quiet(&[stopped.clone(), second]).await;
        if random.bool() {
            trial.comes_to_rest().await;
        }
        stopped.resume();
        trial.until_quiet(&[stopped]).await;
        trial.comes_to_rest().await;
    });
}

#[test]
fn a_flow_whose_end_was_asked_for_by_a_process_that_died_ends() {
    for_seeds(300, async |seed| {
        let trial = Trial::new(seed / 10).await;
        let mut random = fastrand::Rng::with_seed(seed);
        let working = trial.process(seed, 20, Fate::Stopped(random.u32(1..200)));
        trial.until_quiet(std::slice::from_ref(&working)).await;
        let asking = Shaky::new(&trial.store, seed, 0, Fate::Killed(1 + seed as u32 % 10));
        let asking = Client::new(asking as _);
        working.resume();
        trial.web.cancel(&asking, &trial.flow).await;
        trial.until_quiet(std::slice::from_ref(&working)).await;
        working.heal();
        trial.comes_to_rest().await;
    });
}

#[test]
fn a_flow_whose_submitter_dies_begins_as_a_whole_or_not_at_all() {
    for_seeds(200, async |seed| {
        let fate = Fate::Killed(1 + seed as u32 % 10);
        let sees = |store: &Arc<MemoryStore>| Shaky::new(store, seed, 0, fate) as Arc<dyn Store>;
        let Some(trial) = Trial::by(seed / 10, sees).await else { return };
        let is_sealed =
            trial.flow.view().await.unwrap().nodes.iter().any(|node| node.status != Status::Waiting);
        let client = Client::new(Arc::clone(&trial.store) as _);
        let keeper = FlowKeeper::new(&client);
        for _ in 0..3 {
            keeper.run_once().await.unwrap();
            drained(&client, &trial.web).await.unwrap();
        }
        if is_sealed || trial.web.has_begun() {
            trial.comes_to_rest().await;
        }
    });
}

#[test]
fn what_was_sent_back_is_not_ended_by_an_older_note() {
    for_seeds(60, async |seed| {
        let store = Arc::new(MemoryStore::new());
        let client = Client::new(Arc::clone(&store) as _);
        let mut flow = client.flow("again");
        let first = flow.add(super::failing("first"));
        flow.add_after(first, part("second"));
        let flow = flow.submit().await.unwrap();
        let killed = Shaky::new(&store, seed, 0, Fate::Killed(1 + seed as u32));
        let dying = Client::new(killed as _);
        let _never_ends = tokio::time::timeout(Duration::from_secs(60), work(&dying)).await;
        if !flow.view().await.unwrap().is_over {
            return;
        }
        flow.retry().await.unwrap();
        let keeper = FlowKeeper::new(&client);
        for _ in 0..3 {
            keeper.run_once().await.unwrap();
        }
        let worker = Worker::new(&client).handle(|job: super::Part, ctx| super::run(part(job.name), ctx));
        worker.drain().await.unwrap();
        keeper.run_once().await.unwrap();
        assert_eq!(statuses(&flow.view().await.unwrap()), ["completed", "completed"]);
    });
}
