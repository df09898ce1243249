//! Schedules that are set, changed, paused, deleted, declared; and ticks that are lost.

use std::time::Duration;

use windlass_core::State;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::schedule::{CatchUp, Overlap, Schedule};
use windlass_worker::{Error, Job, Pruner, ScheduleSet, Ticker, Worker};

use super::{HOUR, MINUTE, Report, at, made, report, scene, slots, ticks, work};

#[tokio::test]
async fn what_is_set_again_changes_nothing_and_a_change_moves_the_next_slot() {
    let (client, clock) = scene().await;
    let set = async |period: Duration, text: &str| {
        let draft = client.schedule("s").every(period);
        draft.enqueue(Report { text: text.into() }).await.unwrap()
    };
    assert_eq!(set(HOUR, "a").await.set, ScheduleSet::Created);
    let before = client.schedule("s").get().await.unwrap().unwrap();
    assert_eq!(set(HOUR, "a").await.set, ScheduleSet::Unchanged);
    assert_eq!(client.schedule("s").get().await.unwrap().unwrap(), before);
    let changed = set(10 * MINUTE, "a").await;
    assert_eq!(changed.set, ScheduleSet::Changed);
    assert_eq!(changed.schedule.next_start, Some(at("2026-10-01T00:10:00Z")));
    assert_eq!(ticks(&client).await.len(), 1, "the tick of before is gone");
    assert_eq!(set(10 * MINUTE, "b").await.set, ScheduleSet::Changed);
    clock.advance(10 * MINUTE);
    work(&client).await;
    assert_eq!(made(&client).await[0].output.as_deref(), Some(&br#""s b""#[..]), "the next run says it");
}

#[tokio::test]
async fn a_change_loses_no_slot_that_was_not_decided_about() {
    for (late, wanted) in [(HOUR, "01T01:00"), (5 * HOUR + 10 * MINUTE, "01T05:00")] {
        for change in [Schedule::every(HOUR).overlap(Overlap::Skip), Schedule::every(HOUR).except(["12-25"])]
        {
            let (client, clock) = scene().await;
            client.schedule("s").every(HOUR).enqueue(Report::default()).await.unwrap();
            clock.advance(late);
            let set = client.schedule("s").when(change).enqueue(Report::default()).await.unwrap();
            assert_eq!(set.set, ScheduleSet::Changed);
            work(&client).await;
            assert_eq!(slots(&client).await, [wanted]);
        }
    }
    // One that the schedule no longer has is let go.
    let (client, clock) = scene().await;
    client.schedule("s").every(HOUR).enqueue(Report::default()).await.unwrap();
    clock.advance(HOUR);
    client.schedule("s").every(2 * HOUR).enqueue(Report::default()).await.unwrap();
    clock.advance(HOUR);
    work(&client).await;
    assert_eq!(slots(&client).await, ["01T02:00"]);
}

#[tokio::test]
async fn a_change_loses_no_slot_that_is_spread_and_has_not_started() {
    let (client, clock) = scene().await;
    let daily = || client.schedule("s").cron("@daily").spread(HOUR);
    let start = daily().enqueue(Report::default()).await.unwrap().schedule.next_start.unwrap();
    let midnight = at("2026-10-02T00:00:00Z");
    assert!(start > midnight.plus(Duration::from_secs(1)), "this id starts later than its slot");
    clock.set(start.minus(Duration::from_secs(1)));
    let changed = daily().catch_up(CatchUp::Skip).enqueue(Report::default()).await.unwrap();
    assert_eq!((changed.set, changed.schedule.next_start), (ScheduleSet::Changed, Some(start)));
    client.schedule("s").pause().await.unwrap();
    assert_eq!(client.schedule("s").resume().await.unwrap().next_start, Some(start));
    clock.set(start);
    work(&client).await;
    assert_eq!(slots(&client).await, ["02T00:00"]);
    client.schedule("s").pause().await.unwrap();
    let resumed = client.schedule("s").resume().await.unwrap();
    assert_eq!(resumed.next_start, Some(start.plus(24 * HOUR)), "it comes once");
}

#[tokio::test]
async fn a_schedule_moves_to_another_queue() {
    let (client, clock) = scene().await;
    client.schedule("s").every(HOUR).enqueue(Report::default()).await.unwrap();
    let other = windlass_core::Options::new().queue("other");
    client.schedule("s").every(HOUR).enqueue(Report::default().with(other)).await.unwrap();
    assert_eq!(client.schedules(None, 10).await.unwrap().schedules.len(), 1);
    clock.advance(HOUR);
    Worker::new(&client).handle(report).queue("other", 1).drain().await.unwrap();
    let jobs = made(&client).await;
    assert_eq!((jobs.len(), jobs[0].queue.as_str()), (1, "other"));
}

#[tokio::test]
async fn a_move_that_is_refused_leaves_the_schedule_where_it_is() {
    let (client, _clock) = scene().await;
    client.schedule("s").every(HOUR).enqueue(Report::default()).await.unwrap();
    let before = client.schedule("s").get().await.unwrap().unwrap();
    let elsewhere = || windlass_core::Options::new().queue("other");
    let past = client.schedule("s").at([at("2026-10-01T00:00:00Z")]);
    assert!(matches!(past.enqueue(Report::default().with(elsewhere())).await, Err(Error::Schedule(_))));
    let large = Report { text: "x".repeat(200 << 10) };
    let error = client.schedule("s").every(HOUR).enqueue(large.with(elsewhere())).await.unwrap_err();
    assert!(matches!(error, Error::Schedule(_)) && error.to_string().contains("at most"), "{error}");
    assert_eq!(client.schedule("s").get().await.unwrap().unwrap(), before);
}

#[tokio::test]
async fn a_paused_schedule_rests_and_goes_on_from_now() {
    let (client, clock) = scene().await;
    let schedule = client.schedule("s");
    client.schedule("s").every(HOUR).catch_up(CatchUp::All(9)).enqueue(Report::default()).await.unwrap();
    assert!(schedule.pause().await.unwrap().record.is_paused);
    assert!(ticks(&client).await.is_empty());
    clock.advance(5 * HOUR);
    work(&client).await;
    schedule.resume().await.unwrap();
    work(&client).await;
    assert!(made(&client).await.is_empty(), "what came meanwhile is not made up");
    clock.advance(HOUR);
    work(&client).await;
    assert_eq!(slots(&client).await, ["01T06:00"]);
}

#[tokio::test]
async fn a_run_by_hand_comes_beside_the_slots() {
    let (client, clock) = scene().await;
    client.schedule("s").every(HOUR).enqueue(Report::default()).await.unwrap();
    let id = client.schedule("s").run_now().await.unwrap();
    work(&client).await;
    assert_eq!(client.job(id).await.unwrap().unwrap().state, State::Completed);
    clock.advance(HOUR);
    work(&client).await;
    assert_eq!(slots(&client).await, ["01T00:00", "01T01:00"]);
}

#[tokio::test]
async fn a_deleted_schedule_is_gone_and_may_come_back() {
    let (client, clock) = scene().await;
    client.schedule("s").every(HOUR).enqueue(Report::default()).await.unwrap();
    assert!(client.schedule("s").delete().await.unwrap());
    assert!(!client.schedule("s").delete().await.unwrap());
    assert!(matches!(client.schedule("s").pause().await, Err(Error::NoSchedule { .. })));
    clock.advance(HOUR);
    work(&client).await;
    assert!(made(&client).await.is_empty());
    client.schedule("s").every(HOUR).enqueue(Report::default()).await.unwrap();
    clock.advance(HOUR);
    work(&client).await;
    assert_eq!(slots(&client).await, ["01T02:00"]);
}

#[tokio::test]
async fn a_schedule_ends_by_its_bounds() {
    let (client, clock) = scene().await;
    client.schedule("count").every(HOUR).count(2).enqueue(Report::default()).await.unwrap();
    let once = [at("2026-10-01T02:30:00Z")];
    client.schedule("once").at(once).enqueue(Report::default()).await.unwrap();
    for _ in 0..6 {
        clock.advance(HOUR);
        work(&client).await;
    }
    assert_eq!(slots(&client).await, ["01T01:00", "01T02:00", "01T02:30"]);
    assert!(ticks(&client).await.is_empty());
    let past = client.schedule("past").at(once).enqueue(Report::default()).await;
    assert!(matches!(past, Err(Error::Schedule(_))), "it would never come");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_is_stored() {
    let (client, _clock) = scene().await;
    let error = client.schedule("s").cron("0 25 * * *").enqueue(Report::default()).await.unwrap_err();
    assert!(error.to_string().contains("hour"), "{error}");
    let late = windlass_core::Options::new().delay(HOUR);
    assert!(client.schedule("s").every(HOUR).enqueue(Report::default().with(late)).await.is_err());
    assert!(client.schedule("").every(HOUR).enqueue(Report::default()).await.is_err());
    assert!(client.schedules(None, 10).await.unwrap().schedules.is_empty());
    let worker = Worker::new(&client).handle(report);
    let error =
        worker.schedule("s", Schedule::cron("nonsense"), Report::default()).drain().await.unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error}");
}

#[tokio::test]
async fn declared_schedules_follow_the_code() {
    let (client, _clock) = scene().await;
    client.schedule("by hand").every(HOUR).enqueue(Report::default()).await.unwrap();
    let worker = |owner: &str| Worker::new(&client).handle(report).schedule_owner(owner);
    let every = || Schedule::every(HOUR);
    let ids = async || {
        let page = client.schedules(None, 100).await.unwrap();
        page.schedules.into_iter().map(|view| view.id).collect::<Vec<_>>()
    };
    worker("shop")
        .schedule("a", every(), Report::default())
        .schedule("b", every(), Report::default())
        .drain()
        .await
        .unwrap();
    worker("mail").schedule("c", every(), Report::default()).drain().await.unwrap();
    assert_eq!(ids().await, ["a", "b", "by hand", "c"]);
    worker("shop").schedule("b", every(), Report::default()).drain().await.unwrap();
    assert_eq!(ids().await, ["b", "by hand", "c"], "what is no longer declared is gone");
    worker("shop").drain().await.unwrap();
    assert_eq!(ids().await, ["by hand", "c"]);
    let running = worker("shop").schedule("d", every(), Report::default()).start().unwrap();
    crate::support::eventually("a started worker sets them", async || ids().await.len() == 3).await;
    running.stop().await;
}

#[tokio::test]
async fn workers_without_an_owner_leave_each_others_schedules() {
    let (client, _clock) = scene().await;
    let declares =
        |id: &str| Worker::new(&client).handle(report).schedule(id, Schedule::every(HOUR), Report::default());
    declares("a").drain().await.unwrap();
    declares("b").drain().await.unwrap();
    declares("c").schedule_owner("shop").drain().await.unwrap();
    declares("d").schedule_owner("shop").drain().await.unwrap();
    let page = client.schedules(None, 100).await.unwrap();
    let ids: Vec<_> = page.schedules.iter().map(|view| view.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "d"]);
}

#[tokio::test]
async fn a_lost_tick_is_put_back() {
    let (client, clock) = scene().await;
    client.schedule("s").every(HOUR).enqueue(Report::default()).await.unwrap();
    client.schedule("fine").every(HOUR).enqueue(Report::default()).await.unwrap();
    let ticker = Ticker::new(&client);
    let tick = client.schedule("s").get().await.unwrap().unwrap().record.tick.unwrap();
    let summary = ticker.run_once().await.unwrap();
    assert_eq!((summary.looked, summary.put_back), (2, 0));
    client.delete(tick).await.unwrap();
    assert_eq!(ticker.run_once().await.unwrap().put_back, 1);
    let tick = client.schedule("s").get().await.unwrap().unwrap().record.tick.unwrap();
    client.cancel(tick).await.unwrap();
    clock.advance(HOUR + 5 * Duration::from_secs(1));
    assert_eq!(ticker.run_once().await.unwrap().put_back, 1, "also one that was cancelled");
    work(&client).await;
    assert_eq!(slots(&client).await, ["01T01:00", "01T01:00"]);
    assert_eq!(ticker.run_once().await.unwrap().put_back, 0);
}

#[tokio::test]
async fn a_tick_that_is_hurried_comes_when_it_should() {
    let (client, clock) = scene().await;
    client.schedule("s").every(HOUR).enqueue(Report::default()).await.unwrap();
    client.retry(ticks(&client).await[0].id).await.unwrap();
    work(&client).await;
    assert!(made(&client).await.is_empty(), "nothing comes early");
    clock.advance(HOUR);
    work(&client).await;
    assert_eq!(slots(&client).await, ["01T01:00"]);
}

#[tokio::test]
async fn ticks_live_beside_queues_that_keep_nothing() {
    let (client, clock) = scene().await;
    let retention = Retention { completed: Keep::NONE, dead: Keep::NONE, cancelled: Keep::NONE };
    client.define_queue("reports", QueueConfig { retention, ..QueueConfig::default() }).await.unwrap();
    client.schedule("s").every(HOUR).enqueue(Report::default()).await.unwrap();
    let pruner = Pruner::new(std::sync::Arc::clone(client.store()));
    for _ in 0..5 {
        clock.advance(HOUR);
        work(&client).await;
        pruner.run_once().await.unwrap();
    }
    assert!(made(&client).await.is_empty(), "nothing is kept");
    assert_eq!(client.schedule("s").get().await.unwrap().unwrap().record.state.made, 5);
    assert_eq!(ticks(&client).await.len(), 1);
}
