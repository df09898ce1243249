//! Days that schedules share under a name.

use windlass_core::schedule::{Overlap, Schedule};
use windlass_worker::{Error, Job, ScheduleSet, Ticker, Worker};

use super::{HOUR, Report, at, report, scene, slots, ticks, work};

const DAILY: &str = "0 12 * * *";

#[tokio::test]
async fn a_calendar_that_changes_moves_the_schedules_that_name_it() {
    let (client, clock) = scene().await;
    let first = client.calendar("rest").set(["2026-10-01", " 10-02", "10-02"]).await.unwrap();
    assert_eq!((first.set, first.moved), (ScheduleSet::Created, 0));
    assert_eq!(client.calendar("rest").get().await.unwrap().unwrap().days, ["10-02", "2026-10-01"]);
    let set = async |id: &str| {
        let other = windlass_core::Options::new().queue(format!("of {id}").replace(' ', "-"));
        let draft = client.schedule(id).cron(DAILY).calendar("rest").except(["10-04"]);
        draft.enqueue(Report::default().with(other)).await.unwrap()
    };
    for id in ["a", "b"] {
        assert_eq!(set(id).await.schedule.next_start, Some(at("2026-10-03T12:00:00Z")));
        assert_eq!(set(id).await.set, ScheduleSet::Unchanged);
    }
    client.schedule("beside").cron(DAILY).enqueue(Report::default()).await.unwrap();
    let next = async |id: &str| client.schedule(id).get().await.unwrap().unwrap().next_start.unwrap();
    // A day more, of which each has its slot already in mind; and then a day less, before the slot that they wait for.
    let more = client.calendar("rest").set(["2026-10-01", "10-02", "10-03"]).await.unwrap();
    assert_eq!((more.set, more.moved), (ScheduleSet::Changed, 2));
    assert_eq!([next("a").await, next("b").await], [at("2026-10-05T12:00:00Z"); 2]);
    let less = client.calendar("rest").set(["2026-10-01", "10-03"]).await.unwrap();
    assert_eq!((less.set, less.moved), (ScheduleSet::Changed, 2));
    assert_eq!([next("a").await, next("b").await], [at("2026-10-02T12:00:00Z"); 2]);
    assert_eq!(next("beside").await, at("2026-10-01T12:00:00Z"));
    assert_eq!(ticks(&client).await.len(), 3, "those of before are gone");
    for _ in 0..5 * 24 {
        clock.advance(HOUR);
        let worker = Worker::new(&client).handle(report).queue("of-a", 1).queue("of-b", 1);
        worker.queue("reports", 1).drain().await.unwrap();
    }
    let wanted = ["01", "02", "02", "02", "03", "04", "05", "05", "05"].map(|day| format!("{day}T12:00"));
    assert_eq!(slots(&client).await, wanted);
}

#[tokio::test]
async fn a_calendar_that_is_not_there_is_refused_and_one_in_use_stays() {
    let (client, _clock) = scene().await;
    let draft = client.schedule("s").cron(DAILY).calendar("none");
    let error = draft.enqueue(Report::default()).await.unwrap_err().to_string();
    assert!(error.contains("`calendar`") && error.contains("\"none\""), "{error}");
    assert!(client.schedules(None, 9).await.unwrap().schedules.is_empty());
    for bad in ["someday", "13-40", "2026-10-02..2026-10-01"] {
        assert!(matches!(client.calendar("rest").set([bad]).await, Err(Error::Schedule(_))), "{bad}");
    }
    let all = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    assert!(client.calendar("rest").set(all).await.is_err(), "nothing is left");
    assert!(client.calendar("").set(["sun"]).await.is_err() && client.calendar("a\nb").get().await.is_err());
    assert!(!client.calendar("rest").delete().await.unwrap());
    client.calendar("rest").set(["sun"]).await.unwrap();
    let draft = client.schedule("s").cron(DAILY).calendar("rest").except(["mon", "tue", "wed", "thu"]);
    draft.enqueue(Report::default()).await.unwrap();
    let error = client.calendar("rest").delete().await.unwrap_err().to_string();
    assert!(error.contains("\"s\""), "{error}");
    // What leaves a schedule without any day is said; the schedule rests as before.
    assert!(client.calendar("rest").set(["fri", "sat", "sun"]).await.is_err());
    assert_eq!(client.schedule("s").get().await.unwrap().unwrap().record.days, ["sun"]);
    client.schedule("s").delete().await.unwrap();
    assert!(client.calendar("rest").delete().await.unwrap());
    assert!(client.calendars(None, 9).await.unwrap().calendars.is_empty());
}

#[tokio::test]
async fn a_schedule_that_was_missed_when_its_calendar_changed_follows_later() {
    let (client, clock) = scene().await;
    client.calendar("rest").set(["10-01"]).await.unwrap();
    client.schedule("s").cron(DAILY).calendar("rest").enqueue(Report::default()).await.unwrap();
    client.schedule("still").cron(DAILY).calendar("rest").enqueue(Report::default()).await.unwrap();
    client.schedule("still").pause().await.unwrap();
    // As one leaves it that dies after it has written the calendar.
    let days = serde_json::json!({ "days": ["10-01", "10-02"] });
    client.records("windlass.calendars").unwrap().put("rest", &days).await.unwrap();
    let ticker = Ticker::new(&client);
    let summary = ticker.run_once().await.unwrap();
    assert_eq!((summary.looked, summary.moved, summary.put_back), (2, 2, 0));
    assert_eq!(ticker.run_once().await.unwrap().moved, 0);
    assert_eq!(ticks(&client).await.len(), 1);
    clock.set(at("2026-10-02T12:00:01Z"));
    work(&client).await;
    assert!(slots(&client).await.is_empty());
    let resumed = client.schedule("still").resume().await.unwrap();
    assert_eq!(resumed.next_start, Some(at("2026-10-03T12:00:00Z")));
    // A calendar that is gone all the same leaves its schedules as they are.
    client.records("windlass.calendars").unwrap().remove("rest").await.unwrap();
    assert_eq!(ticker.run_once().await.unwrap().moved, 0);
    clock.set(at("2026-10-03T12:00:01Z"));
    work(&client).await;
    assert_eq!(slots(&client).await, ["03T12:00"; 2]);
}

#[tokio::test]
async fn declared_schedules_have_calendars_too() {
    let (client, _clock) = scene().await;
    client.calendar("rest").set(["10-01"]).await.unwrap();
    let daily = Schedule::cron(DAILY).calendar("rest").overlap(Overlap::Skip);
    Worker::new(&client).handle(report).schedule("s", daily, Report::default()).drain().await.unwrap();
    let view = client.schedule("s").get().await.unwrap().unwrap();
    assert_eq!(view.next_start, Some(at("2026-10-02T12:00:00Z")));
    assert_eq!(client.schedule("s").preview(1).await.unwrap(), [at("2026-10-02T12:00:00Z").into()]);
}
