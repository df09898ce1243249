//! The in-process queue.

use windlass_local::Queue;

use crate::{WAVE, nothing};

pub(crate) async fn items_awaited(units: u32, concurrency: usize) {
    let queue = Queue::builder().concurrency(concurrency).handle(nothing).expect("it makes sense");
    let mut handles = Vec::with_capacity(WAVE as usize);
    for wave in 0..units / WAVE {
        handles.extend((0..WAVE).map(|number| queue.add(wave * WAVE + number)));
        for handle in handles.drain(..) {
            handle.await.expect("nothing fails");
        }
    }
}

pub(crate) async fn futures_awaited(units: u32, concurrency: usize) {
    let queue = Queue::new(concurrency);
    let mut handles = Vec::with_capacity(WAVE as usize);
    for wave in 0..units / WAVE {
        handles.extend((0..WAVE).map(|number| queue.add(nothing(wave * WAVE + number))));
        for handle in handles.drain(..) {
            handle.await.expect("nothing fails");
        }
    }
}

pub(crate) async fn items_burst(units: u32, concurrency: usize) {
    let queue = Queue::builder().concurrency(concurrency).handle(nothing).expect("it makes sense");
    let handles: Vec<_> = (0..units).map(|number| queue.add(number)).collect();
    for handle in handles {
        handle.await.expect("nothing fails");
    }
}

pub(crate) async fn futures_burst(units: u32, concurrency: usize) {
    let queue = Queue::new(concurrency);
    let handles: Vec<_> = (0..units).map(|number| queue.add(nothing(number))).collect();
    for handle in handles {
        handle.await.expect("nothing fails");
    }
}

pub(crate) async fn items_forgotten(units: u32, concurrency: usize) {
    let queue = Queue::builder().concurrency(concurrency).handle(nothing).expect("it makes sense");
    for wave in 0..units / WAVE {
        for number in 0..WAVE {
            queue.try_post(wave * WAVE + number).expect("there is room");
        }
        queue.until_idle().await;
    }
}

pub(crate) async fn futures_forgotten(units: u32, concurrency: usize) {
    let queue = Queue::new(concurrency);
    for wave in 0..units / WAVE {
        for number in 0..WAVE {
            queue.try_post(nothing(wave * WAVE + number)).expect("there is room");
        }
        queue.until_idle().await;
    }
}
