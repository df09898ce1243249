//! Random settings and random sequences of what users do, on a clock that only the test moves: the promises hold.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use proptest::test_runner::Config;
use tokio::time::Instant;
use windlass_local::{Handle, Queue, Rate, Token};

/// One thing that a user does.
#[derive(Debug, Clone)]
enum Act {
    Add { priority: i16, is_first: bool, key: Option<u8>, millis: u64, ends: Ends },
    Poll(usize),
    Drop(usize),
    Cancel(usize),
    Prioritise(usize, i16),
    Concurrency(usize),
    Pause,
    Start,
    Clear,
    Abort,
    Token,
    Pass(u64),
}

/// How work ends if it is not stopped.
#[derive(Debug, Clone, Copy)]
enum Ends {
    Well,
    Panicking,
    TooLate,
}

#[derive(Debug, Clone)]
struct Scene {
    concurrency: usize,
    per_key: Option<usize>,
    rate: Option<(usize, u64)>,
    acts: Vec<Act>,
}

fn act() -> impl Strategy<Value = Act> {
    let ends = prop_oneof![8 => Just(Ends::Well), 1 => Just(Ends::Panicking), 1 => Just(Ends::TooLate)];
    let add = (-1..2_i16, any::<bool>(), prop::option::of(0..3_u8), 0..30_u64, ends).prop_map(
        |(priority, is_first, key, millis, ends)| Act::Add { priority, is_first, key, millis, ends },
    );
    prop_oneof![
        20 => add,
        3 => (0..50_usize).prop_map(Act::Poll),
        2 => (0..50_usize).prop_map(Act::Drop),
        2 => (0..50_usize).prop_map(Act::Cancel),
        2 => (0..50_usize, -2..3_i16).prop_map(|(which, priority)| Act::Prioritise(which, priority)),
        1 => (1..5_usize).prop_map(Act::Concurrency),
        1 => Just(Act::Pause),
        2 => Just(Act::Start),
        1 => Just(Act::Clear),
        1 => Just(Act::Abort),
        1 => Just(Act::Token),
        8 => (0..40_u64).prop_map(Act::Pass),
    ]
}

fn scene() -> impl Strategy<Value = Scene> {
    let rate = prop::option::of((1..4_usize, 5..50_u64));
    (1..5_usize, prop::option::of(1..3_usize), rate, prop::collection::vec(act(), 1..60))
        .prop_map(|(concurrency, per_key, rate, acts)| Scene { concurrency, per_key, rate, acts })
}

/// What work tells about itself.
#[derive(Default)]
struct Witness {
    running: usize,
    running_max: usize,
    by_key: HashMap<u8, usize>,
    by_key_max: usize,
    starts: Vec<Instant>,
}

/// Runs while this is alive.
struct Runs(Arc<Mutex<Witness>>, Option<u8>);

impl Runs {
    fn new(witness: &Arc<Mutex<Witness>>, key: Option<u8>) -> Self {
        let mut seen = witness.lock().unwrap();
        seen.running += 1;
        seen.running_max = seen.running_max.max(seen.running);
        if let Some(key) = key {
            let of_key = seen.by_key.entry(key).or_default();
            *of_key += 1;
            let of_key = *of_key;
            seen.by_key_max = seen.by_key_max.max(of_key);
        }
        seen.starts.push(Instant::now());
        Self(Arc::clone(witness), key)
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let mut seen = self.0.lock().unwrap();
        seen.running -= 1;
        if let Some(key) = &self.1 {
            *seen.by_key.get_mut(key).unwrap() -= 1;
        }
    }
}

struct Play {
    queue: Queue,
    witness: Arc<Mutex<Witness>>,
    token: Token,
    handles: Vec<Handle<()>>,
    concurrency_max: usize,
}

impl Play {
    fn add(&mut self, priority: i16, is_first: bool, key: Option<u8>, millis: u64, ends: Ends) {
        let witness = Arc::clone(&self.witness);
        let work = async move {
            let _runs = Runs::new(&witness, key);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            match ends {
                Ends::Well => {}
                Ends::Panicking => std::panic::resume_unwind(Box::new("on purpose")),
                Ends::TooLate => std::future::pending().await,
            }
        };
        let mut with = self.queue.with().priority(priority);
        if let Some(key) = key {
            with = with.key(["a", "b", "c"][usize::from(key)]);
        }
        if is_first {
            with = with.front();
        }
        if matches!(ends, Ends::TooLate) {
            with = with.timeout(Duration::from_millis(millis + 5));
        }
        if millis.is_multiple_of(5) {
            with = with.token(&self.token);
        }
        self.handles.push(with.add(work));
    }

    async fn act(&mut self, act: Act) {
        let which = |which: usize, handles: &Vec<_>| which % handles.len().max(1);
        match act {
            Act::Add { priority, is_first, key, millis, ends } => {
                self.add(priority, is_first, key, millis, ends);
            }
            Act::Poll(index) => {
                let index = which(index, &self.handles);
                let Some(handle) = self.handles.get_mut(index) else { return };
                if std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *handle).poll(context)))
                    .await
                    .is_ready()
                {
                    drop(self.handles.swap_remove(index));
                }
            }
            Act::Drop(index) => {
                let index = which(index, &self.handles);
                if index < self.handles.len() {
                    drop(self.handles.swap_remove(index));
                }
            }
            Act::Cancel(index) => {
                if let Some(handle) = self.handles.get(which(index, &self.handles)) {
                    handle.cancel();
                }
            }
            Act::Prioritise(index, priority) => {
                if let Some(handle) = self.handles.get(which(index, &self.handles)) {
                    handle.set_priority(priority);
                }
            }
            Act::Concurrency(concurrency) => {
                self.queue.set_concurrency(concurrency).unwrap();
                self.concurrency_max = self.concurrency_max.max(concurrency);
            }
            Act::Pause => self.queue.pause(),
            Act::Start => self.queue.start(),
            Act::Clear => drop(self.queue.clear()),
            Act::Abort => drop(self.queue.abort()),
            Act::Token => std::mem::take(&mut self.token).cancel(),
            Act::Pass(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        }
    }
}

async fn play(scene: Scene) {
    let mut builder = Queue::builder().concurrency(scene.concurrency);
    if let Some(per_key) = scene.per_key {
        builder = builder.per_key(per_key);
    }
    if let Some((limit, millis)) = scene.rate {
        builder = builder.rate(Rate::sliding(limit, Duration::from_millis(millis)));
    }
    let mut play = Play {
        queue: builder.build().unwrap(),
        witness: Arc::default(),
        token: Token::new(),
        handles: Vec::new(),
        concurrency_max: scene.concurrency,
    };
    for act in scene.acts {
        play.act(act).await;
    }
    play.queue.start();
    play.queue.until_idle().await;
    let counts = play.queue.counts();
    assert_eq!((counts.waiting, counts.running), (0, 0), "counters return to zero");
    assert_eq!(counts.added, counts.completed + counts.failed, "everything ends once");
    for handle in play.handles {
        assert!(handle.is_settled(), "every future settles");
        let _ = handle.await;
    }
    let witness = play.witness.lock().unwrap();
    assert_eq!(witness.running, 0);
    assert!(witness.running_max <= play.concurrency_max, "never more than the cap running");
    if let Some(per_key) = scene.per_key {
        assert!(witness.by_key_max <= per_key, "never more than the cap of a key");
    }
    if let Some((limit, millis)) = scene.rate {
        for window in witness.starts.windows(limit + 1) {
            let span = window[limit] - window[0];
            assert!(span >= Duration::from_millis(millis), "{} starts within {span:?}", limit + 1);
        }
    }
}

/// What is expected to start next: higher priority first, then those in front, then first in, first out.
fn expected(added: &[(i16, bool)]) -> Vec<usize> {
    let mut order: Vec<(i16, i64, usize)> = Vec::new();
    for (index, (priority, is_first)) in added.iter().enumerate() {
        let place = i64::try_from(index).unwrap() + 1;
        order.push((-priority, if *is_first { -place } else { place }, index));
    }
    order.sort_unstable();
    order.into_iter().map(|(_, _, index)| index).collect()
}

fn on_a_paused_clock(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let patience = Duration::from_secs(3_600);
    let ended = runtime.unwrap().block_on(async { tokio::time::timeout(patience, future).await });
    ended.expect("an hour of the paused clock is enough for everything to settle");
}

proptest! {
    #![proptest_config(Config { cases: 400, ..Config::default() })]

    #[test]
    fn promises_hold(scene in scene()) {
        on_a_paused_clock(play(scene));
    }

    #[test]
    fn first_in_first_out_within_a_priority(added in prop::collection::vec((-2..3_i16, any::<bool>()), 0..60)) {
        on_a_paused_clock(async {
            let queue = Queue::builder().concurrency(1).paused().build().unwrap();
            let order = Arc::new(Mutex::new(Vec::new()));
            for (index, (priority, is_first)) in added.iter().enumerate() {
                let order = Arc::clone(&order);
                let with = queue.with().priority(*priority);
                let with = if *is_first { with.front() } else { with };
                with.try_post(async move { order.lock().unwrap().push(index) }).unwrap();
            }
            queue.start();
            queue.until_idle().await;
            assert_eq!(*order.lock().unwrap(), expected(&added));
        });
    }

    #[test]
    fn a_bounded_queue_holds_no_more_than_its_capacity(
        capacity in 1..5_usize,
        concurrency in 1..4_usize,
        producers in 1..6_usize,
    ) {
        on_a_paused_clock(async {
            let queue = Queue::builder().concurrency(concurrency).capacity(capacity).build().unwrap();
            let producers = (0..producers).map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    for number in 0..20_u32 {
                        let handle = queue.push(async move { tokio::task::yield_now().await; number }).await;
                        assert!(queue.waiting() <= capacity);
                        handle.unwrap().detach();
                    }
                })
            });
            for producer in producers.collect::<Vec<_>>() {
                producer.await.unwrap();
            }
            queue.until_idle().await;
        });
    }
}
