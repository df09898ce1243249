//! Bad and extreme input, through the front door, on every store: each gets its documented answer.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{
    Client, Ending, Job, JobError, JobRecord, JobState, Options, OutputError, Reason, Retry, Worker,
};

/// Does what it is told.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Succeed,
    Panic,
    FailLoudly { bytes: usize },
    AnswerLarge { bytes: usize },
}

impl Job for Order {
    const KIND: &'static str = "input.order";
    type Output = String;

    fn options() -> Options {
        Options::new().retry(Retry::fixed(1, Duration::ZERO))
    }
}

/// Counts the orders that succeeded.
static TURN: AtomicU64 = AtomicU64::new(0);

async fn obey(order: Order) -> Result<String, JobError> {
    match order {
        Order::Succeed => Ok(TURN.fetch_add(1, Ordering::SeqCst).to_string()),
        Order::Panic => panic!("told to"),
        Order::FailLoudly { bytes } => Err(JobError::new("x".repeat(bytes))),
        Order::AnswerLarge { bytes } => Ok("y".repeat(bytes)),
    }
}

/// The same kind with content that [`Order`] cannot read.
#[derive(Debug, Serialize, Deserialize)]
struct Misshapen {
    nothing: Vec<u8>,
}

impl Job for Misshapen {
    const KIND: &'static str = "input.order";
    type Output = String;
}

/// Runs a scene on every store.
async fn on_every_store(scene: impl AsyncFn(&Client)) {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite://{}", folder.path().join("jobs.db").display());
    for url in ["memory:", "sqlite::memory:", &file] {
        let client = windlass::open(url).await.unwrap();
        scene(&client).await;
    }
}

/// Enqueues, runs what is ready, and answers what became of it.
async fn run(client: &Client, order: Order) -> JobRecord {
    let handle = client.enqueue(order).await.unwrap();
    Worker::new(client).handle(obey).drain().await.unwrap();
    client.job(handle.id()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_panic_is_an_ordinary_failure() {
    on_every_store(async |client| {
        let record = run(client, Order::Panic).await;
        assert_eq!((record.state, record.reason), (JobState::Dead, Some(Reason::AttemptsExhausted)));
        assert_eq!(record.attempts[0].ending, Some(Ending::Panicked));
        assert!(record.last_error().unwrap().contains("told to"), "{record:?}");
        assert_eq!(run(client, Order::Succeed).await.state, JobState::Completed, "the worker goes on");
    })
    .await;
}

#[tokio::test]
async fn a_payload_of_the_wrong_shape_is_a_dead_letter_with_its_bytes_kept() {
    on_every_store(async |client| {
        let handle = client.enqueue(Misshapen { nothing: vec![1, 2] }).await.unwrap();
        Worker::new(client).handle(obey).drain().await.unwrap();
        let record = client.job(handle.id()).await.unwrap().unwrap();
        assert_eq!((record.state, record.reason), (JobState::Dead, Some(Reason::Permanent)));
        assert_eq!(&record.payload[..], br#"{"nothing":[1,2]}"#);
        assert_eq!(record.attempts[0].ending, Some(Ending::Undecodable));
        let error = handle.output().await.unwrap_err();
        assert!(matches!(error, OutputError::Dead { .. }), "{error}");
    })
    .await;
}

#[tokio::test]
async fn ten_megabytes_of_error_are_cut_and_say_so() {
    on_every_store(async |client| {
        let record = run(client, Order::FailLoudly { bytes: 10 << 20 }).await;
        let text = record.last_error().unwrap();
        assert!(text.len() <= 64 << 10, "{} bytes", text.len());
        assert!(text.ends_with("… (cut, 10485760 bytes in all)"), "{}", &text[text.len() - 60..]);
    })
    .await;
}

#[tokio::test]
async fn an_output_above_its_cap_fails_for_good_and_says_why() {
    on_every_store(async |client| {
        let record = run(client, Order::AnswerLarge { bytes: 2 << 20 }).await;
        assert_eq!((record.state, record.reason), (JobState::Dead, Some(Reason::Permanent)));
        assert!(record.last_error().unwrap().contains("the cap is 1048576"), "{:?}", record.last_error());
        assert_eq!(record.output, None);
    })
    .await;
}

#[tokio::test]
async fn a_queue_name_with_a_newline_is_refused_before_anything_is_stored() {
    on_every_store(async |client| {
        let error = client.enqueue(Order::Succeed).queue("two\nlines").await.unwrap_err();
        assert!(
            error.to_string().contains(r#"bad queue: name "two\nlines" has '\n' at position 3"#),
            "{error}"
        );
        assert!(client.store().queues(None, 10).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_payload_of_five_megabytes_is_refused_with_its_cap() {
    on_every_store(async |client| {
        let large = Misshapen { nothing: vec![b'1'; 5 << 20] };
        let error = client.enqueue(large).await.unwrap_err();
        assert!(error.to_string().contains("the cap is 1048576"), "{error}");
        // Its neighbours in one call are refused with it; alone they are accepted.
        let mixed = [Misshapen { nothing: vec![] }, Misshapen { nothing: vec![0; 2 << 20] }];
        client.enqueue_all(mixed).await.unwrap_err();
        assert!(client.store().queues(None, 10).await.unwrap().is_empty(), "all or nothing");
    })
    .await;
}

#[tokio::test]
async fn priorities_at_both_ends_keep_their_order() {
    on_every_store(async |client| {
        let mut handles = Vec::new();
        for priority in [i16::MIN, 0, i16::MAX] {
            handles.push(client.enqueue(Order::Succeed).priority(priority).await.unwrap());
        }
        Worker::new(client).handle(obey).drain().await.unwrap();
        let mut turns = Vec::new();
        for handle in &handles {
            turns.push(handle.output().await.unwrap().parse::<u64>().unwrap());
        }
        assert!(turns[2] < turns[1] && turns[1] < turns[0], "{turns:?}");
    })
    .await;
}

#[tokio::test]
async fn an_attempt_limit_of_two_to_the_thirty_first_is_taken() {
    on_every_store(async |client| {
        let retry = Retry::exponential(1 << 31, Duration::from_secs(1));
        let handle = client.enqueue(Order::Panic).retry(retry.clone()).await.unwrap();
        Worker::new(client).handle(obey).drain().await.unwrap();
        let record = client.job(handle.id()).await.unwrap().unwrap();
        assert_eq!((record.state, &record.spec.retry), (JobState::Scheduled, &retry));
        let longest = retry.delay(1 << 31, Duration::MAX, 1.0);
        assert_eq!(longest, retry.delay_max(), "the delay saturates at the cap");
    })
    .await;
}
