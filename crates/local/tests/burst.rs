//! What a burst needed is given back when it is over. In a program of its own, because it weighs its whole process.
#![cfg(target_os = "linux")]

#[path = "support/resident.rs"]
mod resident;

use windlass_local::Queue;

use resident::resident;

#[tokio::test]
async fn a_burst_that_is_over_is_forgotten() {
    let queue =
        Queue::builder().concurrency(10).handle(|ballast: [u64; 64]| async move { ballast[0] }).unwrap();
    queue.add([0; 64]).await.unwrap();
    let before = resident();
    for number in 0..100_000 {
        queue.try_post([number; 64]).unwrap();
    }
    let during = resident().saturating_sub(before);
    assert!(during > 40_000, "{during} kB is less than what waits");
    queue.until_idle().await;
    let after = resident().saturating_sub(before);
    assert!(after < 8_192, "{after} kB are still held");
}
