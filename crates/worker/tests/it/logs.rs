//! What attempts say of themselves: lines and progress, how they are kept, and what they cost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::retry::{Jitter, Policy};
use windlass_core::store::Sharing;
use windlass_core::{JobId, Options, State};
use windlass_worker::{
    Answers, Batch, Batching, Client, ConfigError, Ctx, Error, Job, JobError, LogLevel, LogLine,
    State as Shared, Worker,
};

use crate::faulty::{Call, Fault, Faulty};
use crate::support::{Stage, end_of, eventually, scene, scene_on};

/// What a chatter does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Chat {
    /// Says this, once in each of so many attempts of which only the last succeeds.
    Attempts(u32),
    /// Says so many lines of this size.
    Lines(usize, usize),
    /// Says and reports, again and again, until it is released.
    Chatter,
    /// Says one thing, waits until it is released, and says another.
    Wait,
    /// Says what cannot be printed.
    Hostile,
}

impl Job for Chat {
    const KIND: &'static str = "chat";
    type Output = u64;

    fn options() -> Options {
        Options::new().retry(Policy::fixed(9, Duration::ZERO).jitter(Jitter::None))
    }
}

async fn chat(job: Chat, ctx: Ctx, Shared(stage): Shared<Stage>) -> Result<u64, JobError> {
    let _present = stage.enter(&ctx);
    match job {
        Chat::Attempts(count) => {
            ctx.log(LogLevel::Info, format_args!("attempt {} begins", ctx.attempt()));
            ctx.percent(10)?;
            if ctx.attempt() < count {
                ctx.log(LogLevel::Warn, "it fails");
                return Err(JobError::new("not yet"));
            }
            ctx.percent(100)?;
        }
        Chat::Lines(count, size) => {
            let text = "x".repeat(size);
            (1..=count).for_each(|number| ctx.log(LogLevel::Debug, format_args!("{number}{text}")));
        }
        Chat::Chatter => {
            let mut said = 0;
            let wait = stage.wait();
            tokio::pin!(wait);
            loop {
                for _ in 0..100 {
                    said += 1;
                    ctx.progress(&said)?;
                    ctx.log(LogLevel::Trace, said);
                }
                tokio::select! {
                    biased;
                    () = &mut wait => return Ok(said),
                    () = tokio::task::yield_now() => {}
                }
            }
        }
        Chat::Wait => {
            ctx.log(LogLevel::Info, "before");
            ctx.progress(&"half")?;
            stage.wait().await;
            ctx.log(LogLevel::Info, "after");
            ctx.progress(&"done")?;
        }
        Chat::Hostile => ctx.log(LogLevel::Error, "a\0\u{1b}[2J\u{202e}\n\u{7}"),
    }
    Ok(0)
}

pub(crate) fn chatter(client: &Client, stage: &Stage) -> Worker<Stage> {
    Worker::with_state(client, stage.clone()).handle(chat)
}

/// All lines of a job.
pub(crate) async fn lines(client: &Client, id: JobId) -> Vec<LogLine> {
    let (mut reader, mut lines) = (client.logs(id).await.unwrap().unwrap(), Vec::new());
    loop {
        let more = reader.next().await.unwrap();
        if more.is_empty() {
            return lines;
        }
        lines.extend(more);
    }
}

fn texts(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

#[tokio::test]
async fn lines_are_kept_by_attempt_and_progress_is_the_newest() {
    let (client, stage) = scene();
    let running = chatter(&client, &stage).start().unwrap();
    let handle = client.enqueue(Chat::Attempts(3)).await.unwrap();
    let record = end_of(&handle).await;
    assert_eq!(record.state, State::Completed);
    assert_eq!(record.progress.as_deref(), Some(&b"{\"percent\":100.0}"[..]));
    let said = lines(&client, handle.id()).await;
    let expected = [
        (1, 1, LogLevel::Info, "attempt 1 begins"),
        (1, 2, LogLevel::Warn, "it fails"),
        (2, 1, LogLevel::Info, "attempt 2 begins"),
        (2, 2, LogLevel::Warn, "it fails"),
        (3, 1, LogLevel::Info, "attempt 3 begins"),
    ];
    let seen: Vec<_> = said.iter().map(|line| (line.attempt, line.number, line.level, &*line.text)).collect();
    assert_eq!(seen, expected);
    assert!(said.iter().all(|line| line.dropped == 0 && line.fence == u64::from(line.attempt)));
    let mut second = client.logs(handle.id()).await.unwrap().unwrap().attempt(2);
    assert_eq!(texts(&second.next().await.unwrap()), ["attempt 2 begins", "it fails"]);
    assert_eq!(second.next().await.unwrap(), []);
    assert!(client.logs(JobId::new()).await.unwrap().is_none());
    running.stop().await;
}

#[tokio::test]
async fn what_was_said_can_be_read_while_it_runs_and_as_it_grows() {
    let (client, stage) = scene();
    let running = chatter(&client, &stage).start().unwrap();
    let handle = client.enqueue(Chat::Wait).await.unwrap();
    let reader = client.logs(handle.id()).await.unwrap().unwrap();
    let reader = tokio::sync::Mutex::new(reader);
    eventually("it says something", async || {
        let said = reader.lock().await.next().await.unwrap();
        if !said.is_empty() {
            assert_eq!(texts(&said), ["before"]);
        }
        !said.is_empty()
    })
    .await;
    eventually("it reports", async || {
        client.job(handle.id()).await.unwrap().unwrap().progress.as_deref() == Some(b"\"half\"")
    })
    .await;
    assert_eq!(reader.lock().await.next().await.unwrap(), []);
    stage.release(1);
    let record = end_of(&handle).await;
    assert_eq!(record.progress.as_deref(), Some(&b"\"done\""[..]), "written before the end");
    assert_eq!(texts(&reader.lock().await.next().await.unwrap()), ["after"], "written before the end");
    running.stop().await;
}

/// However much is said, few writes are made of it.
#[tokio::test]
async fn many_sayings_are_few_writes() {
    for sharing in [Sharing::Store, Sharing::Queue] {
        let store = Faulty::with(sharing);
        let (client, stage) = scene_on(Arc::clone(&store) as _);
        let running = chatter(&client, &stage).concurrency(4).start().unwrap();
        let began = Instant::now();
        let handles = client.enqueue_all((0..4).map(|_| Chat::Chatter)).await.unwrap();
        stage.until_started(4).await;
        eventually("several rounds are written", async || store.called(Call::Progress) >= 5).await;
        let writes = store.called(Call::Progress) + store.called(Call::WriteFenced);
        // Of each of the two calls one at once, and four a second.
        let bound = 2 * (u32::try_from(began.elapsed().as_millis() / 250).unwrap() + 2);
        stage.release(4);
        let mut said = 0;
        for handle in &handles {
            let output = handle.output().await.unwrap();
            said += output;
            let record = client.job(handle.id()).await.unwrap().unwrap();
            assert_eq!(
                record.progress.as_deref(),
                Some(output.to_string().as_bytes()),
                "the last is written"
            );
            let kept = lines(&client, handle.id()).await;
            assert_eq!(kept.last().unwrap().text, output.to_string(), "the last is written");
            assert_eq!(
                kept.iter().map(|line| line.dropped + 1).sum::<u64>(),
                output,
                "all are accounted for"
            );
        }
        println!("{said} reports and as many lines, {writes} writes in {:?}", began.elapsed());
        assert!(writes <= bound, "{writes} writes, at most {bound} in {:?}", began.elapsed());
        assert!(said > 4 * u64::from(writes), "{said} reports and {writes} writes");
        running.stop().await;
    }
}

#[tokio::test]
async fn above_the_cap_the_first_lines_and_the_newest_are_kept() {
    let (client, stage) = scene();
    let running = chatter(&client, &stage).log_bytes(64 << 10).start().unwrap();
    let handle = client.enqueue(Chat::Lines(2_000, 100)).await.unwrap();
    end_of(&handle).await;
    let said = lines(&client, handle.id()).await;
    assert!((300..500).contains(&said.len()), "{}", said.len());
    assert_eq!((said[0].number, said.last().unwrap().number), (1, 2_000));
    let gaps: Vec<_> = said.iter().filter(|line| line.dropped > 0).collect();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!(gaps[0].dropped as usize, 2_000 - said.len());
    let totals = client.records("default").unwrap().totals().await.unwrap();
    assert!(totals.bytes <= 80 << 10, "{totals:?}");
    // One line that is far too long is cut.
    let long = client.enqueue(Chat::Lines(1, 1 << 20)).await.unwrap();
    end_of(&long).await;
    let said = lines(&client, long.id()).await;
    assert!(said[0].text.len() <= windlass_worker::LOG_LINE_MAX, "{}", said[0].text.len());
    assert!(said[0].text.ends_with("(cut, 1048577 bytes in all)"));
    running.stop().await;
}

#[tokio::test]
async fn lines_go_by_their_time_and_may_be_switched_off() {
    let (client, stage) = scene();
    let running = chatter(&client, &stage).log_ttl(Duration::from_secs(3_600)).start().unwrap();
    let handle = client.enqueue(Chat::Hostile).await.unwrap();
    end_of(&handle).await;
    assert_eq!(texts(&lines(&client, handle.id()).await), ["a\u{fffd}\u{1b}[2J\u{202e}\n\u{7}"]);
    let records = client.records("default").unwrap();
    let kept = records.list("log/", None, 9).await.unwrap().records;
    let ttl = kept[0].expires_at.unwrap().since(kept[0].written_at);
    assert_eq!(ttl, Duration::from_secs(3_600));
    running.stop().await;
    let running = chatter(&client, &stage).log_bytes(0).start().unwrap();
    let handle = client.enqueue(Chat::Wait).await.unwrap();
    stage.release(1);
    let record = end_of(&handle).await;
    assert_eq!(record.progress.as_deref(), Some(&b"\"done\""[..]), "progress is another matter");
    assert_eq!(lines(&client, handle.id()).await, []);
    running.stop().await;
    let bad = chatter(&client, &stage).log_bytes(1_000).start().unwrap_err();
    assert!(matches!(bad, Error::Config(ConfigError::TooSmall { what: "log_bytes", .. })), "{bad}");
    let bad = chatter(&client, &stage).log_ttl(Duration::ZERO).start().unwrap_err();
    assert!(matches!(bad, Error::Config(ConfigError::TooShort { what: "log_ttl", .. })), "{bad}");
}

#[tokio::test]
async fn a_log_outlives_its_job_and_is_not_another_jobs() {
    let (client, stage) = scene();
    let keep_none = Retention { completed: Keep::NONE, ..Retention::default() };
    let config = QueueConfig { retention: keep_none, ..QueueConfig::default() };
    client.define_queue("default", config).await.unwrap();
    let running = chatter(&client, &stage).start().unwrap();
    let id = JobId::new();
    let job = || client.enqueue(Chat::Lines(3, 0)).id(id);
    let _ = job().await.unwrap().finished().await;
    let mut gone = client.logs_in("default", id).unwrap();
    assert_eq!(texts(&gone.next().await.unwrap()), ["1", "2", "3"]);
    // The same id again: it begins anew, with the same fence.
    running.stop().await;
    job().await.unwrap();
    assert_eq!(lines(&client, id).await, [], "those were another job's");
}

/// A store that does not take lines or reports holds up no job.
#[tokio::test]
async fn what_cannot_be_written_is_lost_and_the_job_ends() {
    for fault in [Fault::Unavailable, Fault::Internal, Fault::Panic] {
        let store = Faulty::new();
        let (client, stage) = scene_on(Arc::clone(&store) as _);
        store.fail(Call::WriteFenced, fault, u32::MAX);
        store.fail(Call::Progress, fault, u32::MAX);
        let running = chatter(&client, &stage).start().unwrap();
        let handle = client.enqueue(Chat::Attempts(2)).await.unwrap();
        assert_eq!(end_of(&handle).await.state, State::Completed);
        assert_eq!(lines(&client, handle.id()).await, []);
        running.stop().await;
    }
}

/// Answers that are lost and calls that fail for a while change nothing of what is kept.
#[tokio::test]
async fn what_fails_for_a_while_is_written_once() {
    for fault in [Fault::Unavailable, Fault::Unknown, Fault::Vanished] {
        let store = Faulty::new();
        let (client, stage) = scene_on(Arc::clone(&store) as _);
        store.fail(Call::WriteFenced, fault, 7);
        store.fail(Call::Progress, fault, 7);
        let running = chatter(&client, &stage).start().unwrap();
        let handle = client.enqueue(Chat::Wait).await.unwrap();
        eventually("it went through", async || lines(&client, handle.id()).await.len() == 1).await;
        eventually("and the report", async || {
            client.job(handle.id()).await.unwrap().unwrap().progress.is_some()
        })
        .await;
        stage.release(1);
        end_of(&handle).await;
        assert_eq!(texts(&lines(&client, handle.id()).await), ["before", "after"], "{fault:?}");
        running.stop().await;
    }
}

/// A queue whose calls hang does not hold up what attempts of others say.
#[tokio::test]
async fn a_queue_that_hangs_holds_up_no_other() {
    let store = Faulty::with(Sharing::Queue);
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = chatter(&client, &stage).queue("bad", 1).queue("good", 1).start().unwrap();
    let bad = client.enqueue(Chat::Wait).queue("bad").await.unwrap();
    stage.until_started(1).await;
    eventually("it is written", async || lines(&client, bad.id()).await.len() == 1).await;
    store.sicken("bad", Some(Fault::Late));
    stage.release(1);
    eventually("its last words hang", async || store.failed(Call::WriteFenced) == 1).await;
    let good = client.enqueue(Chat::Lines(5, 1)).queue("good").await.unwrap();
    assert_eq!(end_of(&good).await.state, State::Completed);
    assert_eq!(lines(&client, good.id()).await.len(), 5);
    store.sicken("bad", None);
    (0..9).for_each(|_| store.release());
    assert_eq!(end_of(&bad).await.state, State::Completed);
    running.stop().await;
}

/// Last words that hang keep no outcome from being recorded when the worker stops at once.
#[tokio::test]
async fn last_words_that_hang_do_not_undo_what_was_done() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = chatter(&client, &stage).start().unwrap();
    let handle = client.enqueue(Chat::Wait).await.unwrap();
    eventually("it is written", async || lines(&client, handle.id()).await.len() == 1).await;
    let before = store.failed(Call::WriteFenced);
    store.fail(Call::WriteFenced, Fault::Late, u32::MAX);
    stage.release(1);
    eventually("its last words hang", async || store.failed(Call::WriteFenced) > before).await;
    running.stop_now().await;
    let job = client.job(handle.id()).await.unwrap().unwrap();
    assert_eq!((job.state, job.counters.attempt), (State::Completed, 1));
    (0..9).for_each(|_| store.release());
}

#[derive(Serialize, Deserialize)]
struct Part {
    number: u32,
}

impl Job for Part {
    const KIND: &'static str = "part";
    type Output = ();
}

async fn parts(batch: Batch<Part>) -> Result<Answers<Part>, JobError> {
    for item in batch.iter() {
        item.ctx.log(LogLevel::Info, format_args!("part {} of {}", item.job.number, batch.len()));
    }
    Ok(batch.done())
}

#[tokio::test]
async fn items_of_a_batch_have_logs_of_their_own() {
    let (client, _) = scene();
    let handles = client.enqueue_all((0..5).map(|number| Part { number })).await.unwrap();
    let running = Worker::new(&client).batch(Batching::up_to(5), parts).start().unwrap();
    for (number, handle) in handles.iter().enumerate() {
        end_of(handle).await;
        let said = lines(&client, handle.id()).await;
        assert!(said.len() == 1 && said[0].text.starts_with(&format!("part {number} of ")), "{said:?}");
    }
    running.stop().await;
}
