//! The events of a job, for those who follow it, and outputs that are waited for.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::{JobId, State};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, JobEvent, JobEvents};

use crate::faulty::{Call, Fault, Faulty};
use crate::logs::{Chat, chatter};
use crate::support::{Act, PATIENCE, Stage, end_of, probe, scene, scene_on, worker};

async fn next(events: &mut JobEvents) -> Option<JobEvent> {
    tokio::time::timeout(PATIENCE, events.next()).await.expect("something happens").unwrap()
}

/// All that is left, in a few words.
async fn rest(events: &mut JobEvents) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(event) = next(events).await {
        seen.push(match event {
            JobEvent::State(state) => state.to_string(),
            JobEvent::Attempt(attempt) => format!("{} {}", attempt.number, attempt.ending.unwrap().as_str()),
            JobEvent::Progress(report) => String::from_utf8(report.to_vec()).unwrap(),
            JobEvent::Line(line) => line.text,
            JobEvent::Ended(job) => format!("ended {}", job.state),
            JobEvent::Gone => "gone".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    seen
}

#[tokio::test]
async fn a_job_is_followed_from_its_enqueue_to_its_end() {
    let store = Arc::new(MemoryStore::new());
    // The one that follows is another client than the worker's.
    let (client, stage) = (Client::new(Arc::clone(&store) as _), Stage::default());
    let follower = Client::new(store);
    let handle = client.enqueue(Chat::Wait).await.unwrap();
    let mut events = follower.events(handle.id());
    assert_eq!(next(&mut events).await, Some(JobEvent::State(State::Ready)));
    let running = chatter(&client, &stage).start().unwrap();
    assert_eq!(next(&mut events).await, Some(JobEvent::State(State::Running)));
    let (mut line, mut report) = (false, false);
    while !line || !report {
        match next(&mut events).await {
            Some(JobEvent::Line(said)) => line |= said.text == "before",
            Some(JobEvent::Progress(said)) => report |= said == "\"half\"",
            other => panic!("{other:?}"),
        }
    }
    stage.release(1);
    assert_eq!(rest(&mut events).await, ["after", "1 completed", "\"done\"", "ended completed"]);
    assert_eq!(next(&mut events).await, None);
    running.stop().await;
}

#[tokio::test]
async fn what_has_happened_is_told_in_order() {
    let (client, stage) = scene();
    let running = chatter(&client, &stage).start().unwrap();
    let handle = client.enqueue(Chat::Attempts(3)).await.unwrap();
    end_of(&handle).await;
    let seen = rest(&mut handle.events()).await;
    let expected = [
        "attempt 1 begins",
        "it fails",
        "1 failed",
        "attempt 2 begins",
        "it fails",
        "2 failed",
        "attempt 3 begins",
        "3 completed",
        "{\"percent\":100.0}",
        "ended completed",
    ];
    assert_eq!(seen, expected);
    running.stop().await;
}

#[tokio::test]
async fn a_job_that_is_gone_ends_its_events() {
    let (client, stage) = scene();
    assert_eq!(rest(&mut client.events(JobId::new())).await, ["gone"]);
    let keep_none = Retention { completed: Keep::NONE, ..Retention::default() };
    let config = QueueConfig { retention: keep_none, ..QueueConfig::default() };
    client.define_queue("default", config).await.unwrap();
    let handle = client.enqueue(Chat::Lines(3, 0)).await.unwrap();
    let mut events = handle.events();
    assert_eq!(next(&mut events).await, Some(JobEvent::State(State::Ready)));
    let running = chatter(&client, &stage).start().unwrap();
    let seen = rest(&mut events).await;
    assert_eq!(seen.iter().filter(|text| *text != "running").collect::<Vec<_>>(), ["1", "2", "3", "gone"]);
    running.stop().await;
}

/// A caller that gives up waiting and comes again misses nothing.
#[tokio::test]
async fn events_are_not_lost_with_their_caller() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = chatter(&client, &stage).start().unwrap();
    let handle = client.enqueue(Chat::Lines(500, 100)).await.unwrap();
    end_of(&handle).await;
    let mut events = handle.events();
    let mut lines = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = tokio::task::yield_now() => {}
            event = events.next() => match event.unwrap() {
                Some(JobEvent::Line(line)) => lines.push(line.number),
                Some(_) => {}
                None => break,
            },
        }
    }
    assert_eq!(lines, (1..=500).collect::<Vec<_>>());
    running.stop().await;
}

/// An output that is waited for, given up and waited for again, is not missed, whenever the job ends.
#[tokio::test]
async fn an_output_is_not_missed_by_those_who_give_up_for_a_while() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).concurrency(16).start().unwrap();
    // Some answers are lost or late; that the job has ended is found all the same.
    store.fail(Call::States, Fault::Unavailable, 20);
    let handles = client.enqueue_all((0..64).map(|_| probe(Act::Linger(3)))).await.unwrap();
    let wait = |handle: windlass_worker::Handle<_>| async move {
        let mut given_up = 0;
        loop {
            let patience = Duration::from_micros(fastrand_micros(given_up));
            match tokio::time::timeout(patience, handle.output()).await {
                Ok(output) => return output.unwrap(),
                Err(_elapsed) => given_up += 1,
            }
        }
    };
    let waits: Vec<_> = handles.into_iter().map(|handle| tokio::spawn(wait(handle))).collect();
    for wait in waits {
        let output = tokio::time::timeout(PATIENCE, wait).await.expect("its end is found");
        assert_eq!(output.unwrap(), "attempt 1");
    }
    running.stop().await;
}

/// Between half a millisecond and about eight.
fn fastrand_micros(round: u64) -> u64 {
    500 + round.wrapping_mul(2_654_435_761) % 7_500
}
