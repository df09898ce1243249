//! Lanes by queue: what is held up by what, and how long lanes live.

use std::sync::Mutex;

use tokio::sync::Semaphore;

use super::*;

/// Items name their queue. Those of `stuck` wait for a permit; the shared lane moves those of `moved` on.
struct Probe {
    stuck: Semaphore,
    flushed: Mutex<Vec<(&'static str, &'static str, usize)>>,
}

type Item = &'static str;

impl Flush for Probe {
    type Item = Item;
    type Answer = Item;
    const LIMITS: Limits = Limits { waiting: 100, items: 100, weight: 100 };

    fn weight(_item: &Item) -> usize {
        1
    }

    async fn flush(self: &Arc<Self>, origin: Origin<Self>, items: Vec<Item>) -> Vec<Item> {
        let place = if matches!(origin, Origin::Shared(_)) { "shared" } else { "queue" };
        self.flushed.lock().unwrap().push((place, items[0], items.len()));
        for item in &items {
            match (&origin, *item) {
                (Origin::Shared(queues), "moved") => queues.take(&name("moved"), item).unwrap(),
                (_, "stuck") => self.stuck.acquire().await.unwrap().forget(),
                _ => {}
            }
        }
        items
    }
}

fn name(queue: &str) -> Name {
    Name::new(queue).unwrap()
}

fn lanes(sharing: Sharing) -> (Lanes<Probe>, Arc<Probe>) {
    let probe = Arc::new(Probe { stuck: Semaphore::new(0), flushed: Mutex::default() });
    (Lanes::new(sharing, Handle::current(), Arc::clone(&probe)), probe)
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_hangs_holds_up_only_itself() {
    let (lanes, probe) = lanes(Sharing::Queue);
    let lanes = Arc::new(lanes);
    let hung = tokio::spawn({
        let lanes = Arc::clone(&lanes);
        async move { lanes.submit(&name("stuck"), "stuck").await }
    });
    tokio::task::yield_now().await;
    for _ in 0..3 {
        assert_eq!(lanes.submit(&name("good"), "good").await, Ok("good"));
    }
    assert!(!hung.is_finished());
    probe.stuck.add_permits(1);
    assert_eq!(hung.await.unwrap(), Ok("stuck"));
}

#[tokio::test(start_paused = true)]
async fn lanes_of_queues_end_when_they_are_not_used() {
    let (lanes, probe) = lanes(Sharing::Queue);
    let open = || lanes.queues.open().lanes.len();
    lanes.submit(&name("good"), "good").await.unwrap();
    lanes.post(&name("stuck"), "stuck").await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(open(), 2);
    tokio::time::sleep(3 * SWEEP_INTERVAL).await;
    assert_eq!(open(), 1, "one is still at work");
    probe.stuck.add_permits(1);
    tokio::time::sleep(2 * SWEEP_INTERVAL).await;
    assert_eq!((open(), Arc::strong_count(&probe)), (0, 2), "tasks are gone");
    assert_eq!(lanes.submit(&name("good"), "good").await, Ok("good"), "and come again");
    assert_eq!(open(), 1);
    drop(lanes);
    tokio::time::sleep(2 * SWEEP_INTERVAL).await;
    assert_eq!(Arc::strong_count(&probe), 1);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_most_lanes_items_go_one_by_one() {
    let (lanes, probe) = lanes(Sharing::Queue);
    for queue in 0..LANES_MAX + 3 {
        assert_eq!(lanes.submit(&name(&format!("q{queue}")), "good").await, Ok("good"));
    }
    lanes.post(&name("further"), "good").await.unwrap();
    assert_eq!(lanes.queues.open().lanes.len(), LANES_MAX);
    assert_eq!(probe.flushed.lock().unwrap().len(), LANES_MAX + 4);
}

#[tokio::test(start_paused = true)]
async fn what_is_moved_to_its_queue_draws_the_queue_after_it() {
    let (lanes, probe) = lanes(Sharing::Store);
    for item in ["good", "moved"] {
        lanes.submit(&name(item), item).await.unwrap();
    }
    lanes.mark(|| "mark").await;
    lanes.submit(&name("moved"), "next").await.unwrap();
    lanes.submit(&name("good"), "good").await.unwrap();
    let flushed = |place| {
        let flushed = probe.flushed.lock().unwrap();
        flushed.iter().filter(|(at, ..)| *at == place).map(|(_, item, _)| *item).collect::<Vec<_>>()
    };
    assert_eq!(flushed("shared"), ["good", "moved", "mark", "good"]);
    assert_eq!(flushed("queue")[..1], ["moved"]);
    assert_eq!(flushed("queue").last(), Some(&"next"));
    tokio::time::sleep(3 * SWEEP_INTERVAL).await;
    lanes.submit(&name("moved"), "later").await.unwrap();
    assert_eq!(flushed("shared").last(), Some(&"later"), "and shares again when its lane has ended");
}
