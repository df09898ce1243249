//! What a burst needed is given back when it is over. In a program of its own, because it weighs its whole process.
#![cfg(target_os = "linux")]

use windlass_local::Queue;

/// The resident memory of this process, in kilobytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is in there");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of kilobytes")
}

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
