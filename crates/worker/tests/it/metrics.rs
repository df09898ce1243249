//! What is counted when the store does not answer, and how often it is asked.

use std::sync::Arc;
use std::time::Duration;

use windlass_worker::Metrics;

use crate::faulty::{Call, Fault, Faulty};
use crate::support::{Act, end_of, probe, scene, scene_on, worker};

/// The value of a sample that has this name and these labels; 0 where there is none.
fn value(metrics: &Metrics, sample: &str) -> u64 {
    let text = metrics.encode();
    let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.map_or(0, |value| value.parse::<f64>().expect("a number") as u64)
}

#[tokio::test(start_paused = true)]
async fn a_store_is_asked_at_most_once_a_second() {
    let (client, _stage) = scene();
    let metrics = Metrics::new();
    let ready = r#"windlass_jobs{queue="default",state="ready"}"#;
    client.enqueue(probe(Act::Succeed)).await.unwrap();
    metrics.scrape(&client).await;
    assert_eq!(value(&metrics, ready), 1);
    client.enqueue(probe(Act::Succeed)).await.unwrap();
    metrics.scrape(&client).await;
    assert_eq!(value(&metrics, ready), 1, "as it was a moment ago");
    tokio::time::advance(Duration::from_secs(1)).await;
    metrics.scrape(&client).await;
    assert_eq!(value(&metrics, ready), 2);
}

#[tokio::test]
async fn outcomes_are_counted_once_when_answers_are_lost() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let metrics = Metrics::new();
    let client = client.with_metrics(&metrics);
    store.fail(Call::Enqueue, Fault::Unknown, 1);
    let first = client.enqueue(probe(Act::Succeed)).await.unwrap();
    let running = worker(&client, &stage).start().unwrap();
    end_of(&first).await;
    let mut handles = Vec::new();
    for round in 0..10 {
        store.fail(Call::Settle, Fault::Unknown, 1 + round % 3);
        let act = if round % 2 == 0 { Act::Succeed } else { Act::Fail };
        handles.push(client.enqueue(probe(act)).await.unwrap());
    }
    for handle in &handles {
        end_of(handle).await;
    }
    running.stop().await;
    let settled = |outcome: &str| {
        value(
            &metrics,
            &format!(r#"windlass_settled_total{{queue="default",kind="probe",outcome="{outcome}"}}"#),
        )
    };
    assert_eq!((settled("completed"), settled("failed_for_good")), (6, 5));
    let enqueued = |result: &str| {
        value(
            &metrics,
            &format!(r#"windlass_enqueued_total{{queue="default",kind="probe",result="{result}"}}"#),
        )
    };
    assert_eq!((enqueued("new"), enqueued("repeated")), (10, 1));
    assert_eq!(value(&metrics, r#"windlass_fenced_total{cause="settle"}"#), 0);
    assert!(value(&metrics, r#"windlass_store_errors_total{call="settle",kind="unknown"}"#) > 0);
}

#[tokio::test]
async fn jobs_that_nothing_comes_for_are_named() {
    let (client, stage) = scene();
    let look = async || Metrics::new().work(&client).await;
    assert!(look().await.is_ok(), "there are none");
    let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
    let work = look().await;
    assert_eq!(work.unserved.iter().map(ToString::to_string).collect::<Vec<_>>(), ["default"]);
    assert!(work.store_answers && !work.is_ok());
    let running = worker(&client, &stage).concurrency(1).prefetch(0).start().unwrap();
    stage.until_started(1).await;
    client.enqueue(probe(Act::Succeed)).await.unwrap();
    assert!(look().await.is_ok(), "one waits, and a worker is there");
    stage.release(1);
    end_of(&handle).await;
    running.stop().await;
}
