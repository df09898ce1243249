//! Rows of tallies: minutes are put together to longer intervals without loss, and what is kept and read is bounded.

use std::time::Duration;

use windlass_core::job::NewJob;
use windlass_core::tally::{Count, Interval, KINDS_MAX, Row, WINDOWS_MAX, Window};
use windlass_core::{Name, Options, StoreError};

use super::tallies::{HOUR, counted, counting, rows, tallies, tidy};
use crate::Harness;
use crate::scene::{QUEUE, Scene, name, seconds};

/// Minutes are told apart, and nothing is lost or counted twice when they are put together, and put together further.
pub async fn folding_loses_nothing(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    for round in 1..=3 {
        scene.add_many(5).await;
        h.advance(seconds(61)).await;
        if round != 2 {
            tidy(&scene).await;
        }
        assert_eq!(counted(&scene).await.of(Count::Accepted), 5 * round);
    }
    let minutes = rows(&scene, QUEUE, HOUR, Interval::Minute).await;
    assert_eq!(minutes.iter().map(|row| row.tally.of(Count::Accepted)).collect::<Vec<_>>(), [5, 5, 5]);
    assert!(
        minutes
            .iter()
            .all(|row| row.interval == Interval::Minute && Interval::Minute.floor(row.at) == row.at)
    );
    for (back, interval) in [(HOUR, Interval::TenMinutes), (HOUR, Interval::Hour)] {
        assert_sum(&rows(&scene, QUEUE, back, interval).await, interval, 15);
    }
    let mut passed = Duration::ZERO;
    for (age, interval) in
        [(8 * HOUR, Interval::TenMinutes), (50 * HOUR, Interval::Hour), (89 * 24 * HOUR, Interval::Hour)]
    {
        h.advance(age - passed).await;
        passed = age;
        tidy(&scene).await;
        assert_sum(&all_rows(&scene, age + HOUR, Interval::Hour).await, Interval::Hour, 15);
        if age < 60 * HOUR {
            assert_sum(&all_rows(&scene, age + HOUR, Interval::Minute).await, interval, 15);
        }
    }
    h.advance(2 * 24 * HOUR).await;
    tidy(&scene).await;
    assert_sum(&all_rows(&scene, 92 * 24 * HOUR, Interval::Hour).await, Interval::Hour, 0);
}

/// All rows of the scene's queue, read in parts that may be read at once.
async fn all_rows(scene: &Scene, back: Duration, interval: Interval) -> Vec<Row> {
    let now = Interval::Hour.floor(scene.store.now().await.expect("a store has a clock")).plus(HOUR);
    let (mut from, mut found) = (Interval::Hour.floor(now.minus(back)), Vec::new());
    while from < now {
        let until = from.plus(interval.span() * 1_200).min(now);
        let window = Window { queues: vec![name(QUEUE)], from, until, interval };
        found.extend(tallies(scene).tallies(&window).await.expect("tallies can be read"));
        from = until;
    }
    found
}

fn assert_sum(rows: &[Row], interval: Interval, accepted: u64) {
    assert_eq!(rows.iter().map(|row| row.tally.of(Count::Accepted)).sum::<u64>(), accepted, "{rows:?}");
    assert!(rows.iter().all(|row| row.interval == interval && interval.floor(row.at) == row.at), "{rows:?}");
}

/// Many kinds are counted, and few of them by name.
pub async fn many_kinds_are_counted_together(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let kinds = KINDS_MAX as u64 + 10;
    let of =
        |kind| NewJob::new(format!("kind-{kind}"), "{}", Options::new()).expect("clauses write proper jobs");
    let batch: Vec<_> = (0..kinds).map(of).collect();
    for _ in 0..2 {
        let found = rows(&scene, QUEUE, HOUR, Interval::Hour).await;
        assert!(found.len() <= 2 * (KINDS_MAX + 1), "{} rows", found.len());
        scene.store.enqueue(batch.as_slice().into()).await.expect("proper jobs are accepted");
        let found = rows(&scene, QUEUE, HOUR, Interval::Hour).await;
        assert_eq!(found.iter().map(|row| row.tally.of(Count::Accepted)).sum::<u64>(), kinds);
        h.advance(seconds(61)).await;
        tidy(&scene).await;
    }
}

/// No more is read at once than is bounded.
pub async fn a_read_is_bounded(h: &impl Harness) {
    let Some(scene) = counting(h).await else { return };
    let now = scene.store.now().await.expect("a store has a clock");
    let queues = |count: u64| (0..count).map(|n| name(&format!("q{n}"))).collect::<Vec<Name>>();
    let window = |count, minutes: u64| Window {
        queues: queues(count),
        from: Interval::Hour.floor(now),
        until: Interval::Hour.floor(now).plus(seconds(60 * minutes)),
        interval: Interval::Minute,
    };
    assert_eq!(tallies(&scene).tallies(&window(24, 60)).await.expect("it is bounded"), []);
    assert_eq!(tallies(&scene).tallies(&window(0, 60)).await.expect("it is bounded"), []);
    for (count, minutes) in [(WINDOWS_MAX + 1, 1), (1, WINDOWS_MAX + 1), (24, 61)] {
        let refused = tallies(&scene).tallies(&window(count, minutes)).await;
        assert!(matches!(refused, Err(StoreError::Window(_))), "{refused:?}");
    }
}
