//! Answers that are lost on the way, and a server that is gone.

use std::sync::Arc;

use windlass_core::store::{Enqueued, Filter, Inspect, Jobs, Queues};
use windlass_core::{CallId, NewJob, Options, StoreErrorKind};
use windlass_store_http::HttpStore;
use windlass_store_memory::MemoryStore;

use crate::front::Front;

fn on_runtime(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

#[test]
fn a_lost_answer_leaves_a_write_unknown_and_its_repeat_is_known() {
    on_runtime(async {
        let inner = Arc::new(MemoryStore::new());
        let front = Front::start(Arc::clone(&inner) as _).await;
        let store = HttpStore::open(&front.url()).await.unwrap();
        let (call, job) = (CallId::new(), NewJob::new("k", "{}", Options::new()).unwrap());
        let jobs: Arc<[NewJob]> = [job].into();

        front.lose_next_answer();
        let lost = store.enqueue_once(call, Arc::clone(&jobs)).await.unwrap_err();
        assert_eq!(lost.kind(), StoreErrorKind::Unknown, "{lost}");
        let again = store.enqueue_once(call, Arc::clone(&jobs)).await.unwrap();
        assert_eq!(again, [Enqueued::Repeated]);
        let page = Inspect::list(&*inner, &Filter::default(), None, 9).await.unwrap();
        assert_eq!(page.jobs.len(), 1, "one call is one acceptance");
    });
}

#[test]
fn a_lost_answer_to_a_look_is_as_good_as_none() {
    on_runtime(async {
        let front = Front::start(Arc::new(MemoryStore::new())).await;
        let store = HttpStore::open(&front.url()).await.unwrap();
        front.lose_next_answer();
        let lost = store.now().await.unwrap_err();
        assert_eq!(lost.kind(), StoreErrorKind::Unavailable, "{lost}");
        store.now().await.unwrap();
    });
}

#[test]
fn a_server_that_is_gone_has_changed_nothing() {
    on_runtime(async {
        let front = Front::start(Arc::new(MemoryStore::new())).await;
        let url = front.url();
        drop(front);
        // Nothing listens there any more once the accepting loop has ended.
        let refused = loop {
            match HttpStore::open(&url).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{refused}");
        assert!(refused.to_string().contains("cannot connect to the server"), "{refused}");
    });
}
