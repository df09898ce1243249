//! Every future settles in every ending, and what was dropped is gone.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime;
use windlass_local::{Closure, Error, Event, Handle, Queue, Token};

/// Counts how many of it are alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Two that run for ever and three that wait.
async fn busy(queue: &Queue, alive: &Arc<AtomicUsize>) -> Vec<Handle<u32>> {
    let work = || {
        let alive = Alive::new(alive);
        async move {
            let _alive = alive;
            std::future::pending::<u32>().await
        }
    };
    let handles = (0..5).map(|_| queue.add(work())).collect();
    queue.until_size_below(4).await;
    handles
}

async fn all_end_with(handles: Vec<Handle<u32>>, error: Error) {
    for handle in handles {
        let result = tokio::time::timeout(Duration::from_secs(20), handle).await;
        assert_eq!(result.expect("it settles"), Err(error.clone()));
    }
}

#[tokio::test]
async fn clear_then_cancel() {
    let (queue, alive) = (Queue::new(2), Arc::default());
    let mut handles = busy(&queue, &alive).await;
    let waiting = handles.split_off(2);
    assert_eq!(queue.clear(), 3);
    all_end_with(waiting, Error::Cleared).await;
    assert_eq!(alive.load(Ordering::SeqCst), 2, "what waited is dropped");
    assert!(handles.iter().all(Handle::cancel));
    assert!(!handles[0].cancel(), "once is enough");
    all_end_with(handles, Error::Cancelled).await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert!(queue.is_idle());
}

#[tokio::test]
async fn abort() {
    let (queue, alive) = (Queue::new(2), Arc::default());
    let handles = busy(&queue, &alive).await;
    assert_eq!(queue.abort(), 5);
    all_end_with(handles, Error::Aborted).await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_dropped_handle_takes_its_work_along() {
    let (queue, alive) = (Queue::new(2), Arc::default());
    let mut handles = busy(&queue, &alive).await;
    drop(handles.pop());
    assert_eq!((queue.waiting(), alive.load(Ordering::SeqCst)), (2, 4), "what waits leaves at once");
    handles.drain(..2);
    queue.until_size_below(1).await;
    drop(handles);
    queue.until_idle().await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert_eq!(queue.counts().failed, 5);
}

#[tokio::test]
async fn a_detached_handle_does_not() {
    let queue = Queue::new(1);
    queue.add(async {}).detach();
    queue.until_idle().await;
    assert_eq!(queue.counts().completed, 1);
}

#[tokio::test]
async fn a_dropped_queue_still_runs_what_it_took() {
    let handles: Vec<_> = {
        let queue = Queue::new(2);
        (0..5).map(|number| queue.add(async move { number })).collect()
    };
    for (number, handle) in (0..).zip(handles) {
        assert_eq!(handle.await, Ok(number));
    }
}

#[tokio::test]
async fn a_dropped_queue_that_is_paused_gives_up_what_waits() {
    let queue = Queue::builder().paused().build().unwrap();
    let handles: Vec<_> = (0..3).map(|number| queue.add(async move { number })).collect();
    drop(queue);
    all_end_with(handles, Error::Closed).await;
}

#[test]
fn the_end_of_the_runtime() {
    for is_paused in [false, true] {
        let worker = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let elsewhere = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let alive = Arc::default();
        let builder = Queue::builder().concurrency(2).runtime(worker.handle().clone());
        let queue = if is_paused { builder.paused() } else { builder }.build().unwrap();
        let handles: Vec<_> = if is_paused {
            (0..5).map(|number| queue.add(async move { number })).collect()
        } else {
            elsewhere.block_on(busy(&queue, &alive))
        };
        worker.shutdown_background();
        elsewhere.block_on(all_end_with(handles, Error::Closed));
        elsewhere.block_on(queue.until_idle());
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        assert_eq!(elsewhere.block_on(queue.add(async { 1 })), Err(Error::Closed), "and nothing new gets in");
    }
}

#[test]
fn a_runtime_that_has_ended_before() {
    let worker = runtime::Builder::new_current_thread().build().unwrap();
    let queue = Queue::builder().runtime(worker.handle().clone()).build().unwrap();
    drop(worker);
    let elsewhere = runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(elsewhere.block_on(queue.add(async { 1 })), Err(Error::Closed));
}

#[tokio::test]
async fn a_dropped_driver() {
    let (queue, driver) = Queue::builder().concurrency(1).build_driven().unwrap();
    let (running, waiting) = (queue.add(std::future::pending::<u32>()), queue.add(async { 1 }));
    tokio::select! {
        () = driver => unreachable!("there is work for ever"),
        () = queue.until_size_below(2) => {}
    }
    assert_eq!((running.await, waiting.await), (Err(Error::Closed), Err(Error::Closed)));
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("in the drop");
    }
}

#[tokio::test]
async fn a_dropped_driver_whose_work_panics_when_dropped() {
    let (queue, driver) = Queue::builder().concurrency(2).build_driven().unwrap();
    let work = || {
        let bomb = PanicsWhenDropped;
        async move {
            let _bomb = bomb;
            std::future::pending::<u32>().await
        }
    };
    let handles: Vec<_> = (0..4).map(|_| queue.add(work())).collect();
    tokio::select! {
        () = driver => unreachable!("there is work for ever"),
        () = queue.until_size_below(3) => {}
    }
    for handle in handles {
        assert_eq!(handle.await, Err(Error::Closed));
    }
}

#[tokio::test]
async fn panics_settle_and_free_their_slot() {
    let queue = Queue::new(1);
    assert_eq!(queue.add(async { panic!("at {}", 1) }).await, Err::<(), _>(Error::Panicked("at 1".into())));
    assert_eq!(
        queue.add(async { std::panic::panic_any(7) }).await,
        Err::<(), _>(Error::Panicked("no text".into()))
    );
    let bomb = PanicsWhenDropped;
    let dropped = queue.add(async move {
        let _bomb = bomb;
        1
    });
    assert_eq!(dropped.await, Err(Error::Panicked("in the drop".into())));
    queue.pause();
    let bomb = PanicsWhenDropped;
    let waiting = queue.add(async move { drop(bomb) });
    queue.clear();
    assert_eq!(waiting.await, Err(Error::Cleared));
    queue.start();
    assert_eq!(queue.add(async { 2 }).await, Ok(2), "the queue goes on");
    queue.try_post(async { PanicsWhenDropped }).unwrap();
    assert_eq!(queue.add(async { 3 }).await, Ok(3), "an output that panics harms no other work");
    let handler = |number: u32| {
        assert!(number > 0, "zero");
        async move { number }
    };
    let items = Queue::builder().concurrency(1).handle(handler).unwrap();
    assert_eq!(items.add(0).await, Err(Error::Panicked("zero".into())));
    assert_eq!(items.add(1).await, Ok(1));
}

#[tokio::test]
async fn a_scope_borrows_and_runs_to_its_end() {
    let words = ["a".to_owned(), "bcd".to_owned()];
    let mut total = 0;
    let result = Queue::builder()
        .concurrency(2)
        .scope(async |queue| {
            for word in &words {
                total += queue
                    .add(async {
                        tokio::task::yield_now().await;
                        word.len()
                    })
                    .await
                    .unwrap();
            }
            queue.add(async { &words[1] }).await
        })
        .await
        .unwrap();
    assert_eq!((total, result), (4, Ok(&words[1])));
    let done = AtomicUsize::new(0);
    let posted = Queue::builder().concurrency(1).scope(async |queue| {
        for _ in 0..3 {
            queue.try_post(async { done.fetch_add(1, Ordering::SeqCst) }).unwrap();
        }
    });
    posted.await.unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 3, "what is not awaited is run before the scope ends");
}

#[tokio::test]
async fn a_token_reaches_into_a_scope() {
    let (token, alive) = (Token::new(), AtomicUsize::new(0));
    let ends = Queue::builder().concurrency(1).scope(async |queue| {
        let work = || async {
            alive.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        };
        let handles: Vec<_> = (0..3).map(|_| queue.with().token(&token).add(work())).collect();
        queue.until_size_below(3).await;
        // From anywhere: what borrows stays where it is.
        let other = token.clone();
        std::thread::spawn(move || other.cancel()).join().expect("cancelling does not panic");
        let mut ends = Vec::new();
        for handle in handles {
            ends.push(handle.await);
        }
        ends.push(queue.with().token(&token).add(work()).await);
        ends
    });
    assert_eq!(ends.await.unwrap(), vec![Err(Error::Cancelled); 4]);
    assert_eq!(alive.load(Ordering::SeqCst), 1, "only the first has started");
}

#[tokio::test(start_paused = true)]
async fn what_its_key_holds_back_has_its_turn_if_the_one_before_goes_away() {
    let queue = Queue::builder().concurrency(3).per_key(1).build().unwrap();
    let ends = Arc::new(tokio::sync::Notify::new());
    let end = Arc::clone(&ends);
    let first = queue.with().key("k").add(async move { end.notified().await });
    let [second, third] = [2, 3].map(|number| queue.with().key("k").add(async move { number }));
    let other = queue.add(async {});
    other.await.unwrap();
    // The place of the key is the second's from here on, which cannot start and goes away.
    queue.pause();
    ends.notify_one();
    first.await.unwrap();
    drop(second);
    queue.start();
    let third = tokio::time::timeout(Duration::from_secs(20), third).await;
    assert_eq!(third.expect("it settles"), Ok(3));
    assert!(queue.is_idle());
}

/// Wakes nothing, and takes along what it has when it is dropped, as the last waker of a future does.
struct Burden(#[expect(dead_code, reason = "it is dropped, and that is all")] Mutex<Option<Handle<u32>>>);

impl Wake for Burden {
    fn wake(self: Arc<Self>) {}
}

#[tokio::test]
async fn wakers_that_are_dropped_may_use_the_queue() {
    let queue = Queue::builder().capacity(50).paused().build().unwrap();
    let burden = || Waker::from(Arc::new(Burden(Mutex::new(Some(queue.add(std::future::pending()))))));
    let poll = |mut future: Pin<&mut dyn Future<Output = ()>>, wakers: [Waker; 2]| {
        for waker in wakers {
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    };
    let mut futures: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = vec![
        Box::pin(async { drop(queue.add(std::future::pending::<u32>()).await) }),
        Box::pin(queue.until_idle()),
        Box::pin(async {
            let mut events = queue.events();
            while events.next().await.is_some() {}
        }),
    ];
    futures.iter_mut().for_each(|future| poll(future.as_mut(), [burden(), burden()]));
    let wakers = [burden(), burden()];
    while queue.try_post(async {}).is_ok() {}
    let mut place = Box::pin(async { drop(queue.push(async {}).await) });
    poll(place.as_mut(), wakers);
    drop((futures, place));
    queue.clear();
    assert!(queue.is_idle());
}

#[tokio::test]
async fn a_push_that_goes_away_gives_its_place_up() {
    let queue = Queue::builder().capacity(1).paused().build().unwrap();
    let first = queue.push(async { 1 }).await.unwrap();
    {
        let mut second = std::pin::pin!(queue.push(async { 2 }));
        let poll = std::future::poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_pending()));
        assert!(poll.await);
        drop(first);
        // The place is promised to the second, which goes away without using it.
    }
    let third = queue.try_push(async { 3 }).expect("there is room again");
    queue.start();
    assert_eq!(third.await, Ok(3));
}

#[tokio::test]
async fn a_subscriber_that_does_not_listen_is_told_what_it_lost() {
    let queue = Queue::new(1);
    let mut events = queue.events();
    for _ in 0..1_000 {
        queue.add(async {}).await.unwrap();
    }
    queue.close();
    let Some(Event::Lost(lost)) = events.next().await else { panic!("it has lost some") };
    let mut heard = 0;
    while let Some(event) = events.next().await {
        assert!(!matches!(event, Event::Lost(_)), "once is enough");
        heard += 1;
    }
    assert_eq!(heard, 1_024);
    assert!(lost > 1_000, "six happen to each: {lost}");
}

#[test]
fn handles_and_queues_can_go_anywhere() {
    fn is_send<T: Send + Sync + 'static>() {}
    is_send::<Queue>();
    is_send::<Queue<Closure>>();
    is_send::<Handle<u32>>();
}

#[tokio::test]
async fn what_a_token_has_cancelled_in_a_scope_does_not_go_on() {
    let (token, went_on) = (Token::new(), AtomicUsize::new(0));
    let ends = Queue::builder().concurrency(2).scope(async |queue| {
        let work = || async {
            while !token.is_cancelled() {
                tokio::task::yield_now().await;
            }
            went_on.fetch_add(1, Ordering::SeqCst);
        };
        let cancels = queue.add(async {
            tokio::task::yield_now().await;
            token.cancel();
        });
        let handles: Vec<_> = (0..3).map(|_| queue.with().token(&token).add(work())).collect();
        cancels.await.unwrap();
        let mut ends = Vec::new();
        for handle in handles {
            ends.push(handle.await);
        }
        ends
    });
    assert_eq!(ends.await.unwrap(), vec![Err(Error::Cancelled); 3]);
    assert_eq!(went_on.load(Ordering::SeqCst), 0, "nothing goes on after the token was cancelled");
}

#[tokio::test]
async fn conditions_that_can_hold_no_more_settle_when_all_is_over() {
    let queue = Queue::new(1);
    let work = queue.add(async {});
    let settled = tokio::time::timeout(Duration::from_secs(20), async {
        tokio::join!(queue.until_failure(), queue.until_rate_limited(), async {
            queue.close();
            work.await.unwrap();
        })
    });
    let (failure, (), ()) = settled.await.expect("they settle");
    assert_eq!(failure, None);
    assert_eq!(queue.until_failure().await, None, "and at once if all is over already");
    queue.until_rate_limited().await;
}

#[tokio::test]
async fn a_new_priority_is_behind_all_others_of_it_also_for_what_its_key_holds_back() {
    let queue = Queue::builder().concurrency(2).per_key(1).build().unwrap();
    let (ends, order) = (Arc::new(tokio::sync::Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let end = Arc::clone(&ends);
    let note = |number| {
        let order = Arc::clone(&order);
        async move { order.lock().unwrap().push(number) }
    };
    let first = queue.with().key("k").add(async move { end.notified().await });
    let held = queue.with().key("k").add(note(0));
    queue.add(async {}).await.unwrap();
    queue.pause();
    let others = [1, 2].map(|number| queue.with().priority(5).add(note(number)));
    assert!(held.set_priority(5));
    let ids: Vec<_> = queue.list_waiting().iter().map(|waiting| waiting.id).collect();
    assert_eq!(ids, [others[0].id(), others[1].id(), held.id()]);
    ends.notify_one();
    first.await.unwrap();
    queue.set_concurrency(1).unwrap();
    queue.start();
    queue.until_idle().await;
    assert_eq!(*order.lock().unwrap(), [1, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_is_paused_by_its_own_work_ends() {
    let done = AtomicUsize::new(0);
    let scope = Queue::builder().concurrency(1).scope(async |queue| {
        let inner = queue.clone();
        queue.try_post(async move { inner.pause() }).unwrap();
        queue.try_post(async { done.fetch_add(1, Ordering::SeqCst) }).unwrap();
    });
    tokio::time::timeout(Duration::from_secs(20), scope).await.expect("it ends").unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 1, "no handle is left that could start it again");
}
