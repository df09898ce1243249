//! What else Rust has for bounded concurrency. Each is used the way its documentation does.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use tokio::sync::{Notify, Semaphore, mpsc};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use crate::{WAVE, nothing};

/// A permit is taken first, and goes into what is spawned.
async fn semaphore(numbers: impl ExactSizeIterator<Item = u32>, permits: &Arc<Semaphore>) {
    let mut handles = Vec::with_capacity(numbers.len());
    for number in numbers {
        let permit = Arc::clone(permits).acquire_owned().await.expect("it is open");
        handles.push(tokio::spawn(async move {
            let result = nothing(number).await;
            drop(permit);
            result
        }));
    }
    for handle in handles {
        handle.await.expect("nothing panics");
    }
}

pub(crate) async fn semaphore_awaited(units: u32, concurrency: usize) {
    let permits = Arc::new(Semaphore::new(concurrency));
    for wave in 0..units / WAVE {
        semaphore(wave * WAVE..(wave + 1) * WAVE, &permits).await;
    }
}

pub(crate) async fn semaphore_burst(units: u32, concurrency: usize) {
    semaphore(0..units, &Arc::new(Semaphore::new(concurrency))).await;
}

pub(crate) async fn tower_awaited(units: u32, concurrency: usize) {
    let service = service_fn(|number: u32| async move { Ok::<_, tower::BoxError>(nothing(number).await) });
    let mut service =
        ServiceBuilder::new().buffer(WAVE as usize).concurrency_limit(concurrency).service(service);
    let mut calls = Vec::with_capacity(WAVE as usize);
    for wave in 0..units / WAVE {
        for number in 0..WAVE {
            let ready = service.ready().await.expect("it is open");
            calls.push(ready.call(wave * WAVE + number));
        }
        for call in calls.drain(..) {
            call.await.expect("nothing fails");
        }
    }
}

/// Not a queue: one place makes all work and takes all results. It shows what is left without one.
pub(crate) async fn buffered_awaited(units: u32, concurrency: usize) {
    for wave in 0..units / WAVE {
        let numbers = stream::iter(wave * WAVE..(wave + 1) * WAVE);
        let results: Vec<u32> = numbers.map(nothing).buffer_unordered(concurrency).collect().await;
        assert_eq!(results.len(), WAVE as usize);
    }
}

pub(crate) async fn buffered_burst(units: u32, concurrency: usize) {
    let results: Vec<u32> = stream::iter(0..units).map(nothing).buffer_unordered(concurrency).collect().await;
    assert_eq!(results.len(), units as usize);
}

/// Tells when a wave is through. With consumers that take turns, its last is not always the last to end.
fn is_last(number: u32) -> bool {
    number % WAVE == WAVE - 1
}

pub(crate) async fn async_channel_forgotten(units: u32, concurrency: usize) {
    let (sender, receiver) = async_channel::unbounded();
    let done = Arc::new(Notify::new());
    for _ in 0..concurrency {
        let (receiver, done) = (receiver.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            while let Ok(number) = receiver.recv().await {
                if is_last(nothing(number).await) {
                    done.notify_one();
                }
            }
        });
    }
    for wave in 0..units / WAVE {
        for number in 0..WAVE {
            sender.try_send(wave * WAVE + number).expect("there is room");
        }
        done.notified().await;
    }
}

pub(crate) async fn flume_forgotten(units: u32, concurrency: usize) {
    let (sender, receiver) = flume::unbounded();
    let done = Arc::new(Notify::new());
    for _ in 0..concurrency {
        let (receiver, done) = (receiver.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            while let Ok(number) = receiver.recv_async().await {
                if is_last(nothing(number).await) {
                    done.notify_one();
                }
            }
        });
    }
    for wave in 0..units / WAVE {
        for number in 0..WAVE {
            sender.send(wave * WAVE + number).expect("it is open");
        }
        done.notified().await;
    }
}

/// A channel that has one consumer only, whatever the concurrency.
pub(crate) async fn mpsc_forgotten(units: u32, _concurrency: usize) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let done = Arc::new(Notify::new());
    let told = Arc::clone(&done);
    tokio::spawn(async move {
        while let Some(number) = receiver.recv().await {
            if is_last(nothing(number).await) {
                told.notify_one();
            }
        }
    });
    for wave in 0..units / WAVE {
        for number in 0..WAVE {
            sender.send(wave * WAVE + number).expect("it is open");
        }
        done.notified().await;
    }
}
