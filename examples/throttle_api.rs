//! How do I keep within the rate that an API allows?

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use windlass::local::{Error, Queue, Rate};

/// An API that allows five calls in 200 ms and refuses more. It is a little lenient about clocks.
#[derive(Default)]
struct Api {
    calls: Mutex<Vec<Instant>>,
}

impl Api {
    async fn call(&self, number: u32) -> Result<u32, &'static str> {
        let now = Instant::now();
        let recent = {
            let mut calls = self.calls.lock().expect("no holder of the lock panics");
            calls.push(now);
            calls.iter().filter(|call| now - **call < Duration::from_millis(150)).count()
        };
        tokio::time::sleep(Duration::from_millis(10)).await;
        if recent > 5 { Err("429 Too Many Requests") } else { Ok(number * number) }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = Arc::new(Api::default());
    let queue = Queue::builder()
        .concurrency(3)
        .rate(Rate::sliding(5, Duration::from_millis(200)))
        .timeout(Duration::from_secs(5))
        .build()?;

    let calls = (0..12).map(|number| {
        let api = Arc::clone(&api);
        async move { api.call(number).await }
    });
    let answers = queue.add_all(calls).await;
    let refused = answers.iter().filter(|answer| !matches!(answer, Ok(Ok(_)))).count();
    println!(
        "{} answers, {} refused",
        answers.len(),
        if refused == 0 { "none".into() } else { refused.to_string() }
    );

    let slow =
        queue.with().timeout(Duration::from_millis(20)).add(tokio::time::sleep(Duration::from_secs(60)));
    if let Err(Error::TimedOut(after)) = slow.await {
        println!("a slow call was given up after {after:?}");
    }
    Ok(())
}
