//! A million pieces of work through a queue of capacity 1,000 keep memory flat.
#![cfg(target_os = "linux")]

#[path = "support/resident.rs"]
mod resident;

use windlass_local::Queue;

use resident::resident;

#[tokio::test]
async fn a_million_pieces_of_work_keep_memory_flat() {
    let queue = Queue::builder().concurrency(10).capacity(1_000).build().unwrap();
    let mut sum = 0_u64;
    let mut after_warmup = 0;
    let mut handles = std::collections::VecDeque::new();
    for number in 0..1_000_000_u64 {
        // Big enough that keeping a hundredth of them would show.
        let ballast = [number; 64];
        handles.push_back(queue.push(async move { ballast[63] }).await.expect("it is open"));
        while handles.len() > 1_000 {
            let handle: windlass_local::Handle<u64> = handles.pop_front().expect("there are many");
            sum += handle.await.expect("it runs");
        }
        if number == 50_000 {
            after_warmup = resident();
        }
    }
    for handle in handles {
        sum += handle.await.expect("it runs");
    }
    assert_eq!(sum, 999_999 * 1_000_000 / 2);
    let grown = resident().saturating_sub(after_warmup);
    assert!(grown < 2_048, "{grown} kB more than after the first 50,000");
    assert_eq!(queue.counts().completed, 1_000_000);
}
