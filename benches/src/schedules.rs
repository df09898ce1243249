//! What many schedules cost while none is due: the time of an idle worker and of its server, and the rate at which jobs run, with
//! 100,000 schedules in the same queue beside none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::Semaphore;
use windlass::schedule::Schedule;
use windlass::{Client, JobError, Worker};

use crate::ours::{self, Nothing};
use crate::report::Report;
use crate::subject::Subject;

/// Schedules that are set at once.
const WRITERS: usize = 32;

#[derive(Debug, Clone, Copy)]
struct Scale {
    schedules: u32,
    jobs: u32,
    idle: Duration,
}

/// What was measured with so many schedules.
struct Figures {
    /// Time of this process, per second of an idle worker.
    own: Duration,
    /// The server's, where it is known.
    server: Option<Duration>,
    /// Jobs per second.
    rate: f64,
}

/// Measures the stores whose name contains this.
pub(crate) async fn run(is_quick: bool, only: Option<&str>, mut report: Report) -> Result<()> {
    let scale = match is_quick {
        true => Scale { schedules: 20_000, jobs: 20_000, idle: Duration::from_secs(10) },
        false => Scale { schedules: 100_000, jobs: 100_000, idle: Duration::from_secs(60) },
    };
    let is_meant = |subject: &Subject| only.is_none_or(|only| subject.name().contains(only));
    for subject in Subject::ALL.into_iter().filter(is_meant) {
        let without = measure(subject, scale, 0, &mut report).await?;
        let with = measure(subject, scale, scale.schedules, &mut report).await?;
        let beside = "without schedules";
        let count = scale.schedules;
        let work = format!("processor time per idle second, {count} schedules");
        report.latency_beside(subject, &work, with.own, beside, without.own);
        if let (Some(with), Some(without)) = (with.server, without.server) {
            report.latency_beside(subject, "the server's, of that", with, beside, without);
        }
        report.rate(
            subject,
            &format!("run jobs that wait, {count} schedules"),
            with.rate,
            beside,
            without.rate,
        );
    }
    report.print();
    Ok(())
}

async fn measure(subject: Subject, scale: Scale, schedules: u32, report: &mut Report) -> Result<Figures> {
    let place = subject.place()?;
    let client = place.client().await?;
    if schedules > 0 {
        report.progress(&format!("{}: setting {schedules} schedules", subject.name()));
        let started = Instant::now();
        set(&client, schedules).await?;
        let rate = f64::from(schedules) / started.elapsed().as_secs_f64();
        report.figure(subject, "schedules set, one by one", format!("{rate:.0}/s"));
    }
    report.progress(&format!("{}: idle with {schedules} schedules", subject.name()));
    let worker = Worker::new(&client).handle(nothing).start()?;
    // What a worker does when it starts is not what it costs at rest.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (own, server) = (own_time()?, subject.server_cpu()?);
    tokio::time::sleep(scale.idle).await;
    let seconds = u32::try_from(scale.idle.as_secs()).unwrap_or(u32::MAX);
    let own = (own_time()? - own) / seconds;
    let server = server.map(|server| server.used()).transpose()?.map(|used| used / seconds);
    worker.stop().await;
    ours::fill(&client, scale.jobs).await?;
    let rate = ours::drain_filled(&client, scale.jobs).await?;
    Ok(Figures { own, server, rate })
}

async fn nothing(_job: Nothing) -> Result<(), JobError> {
    Ok(())
}

/// Schedules that come once a year, in the queue of the jobs that run.
async fn set(client: &Client, schedules: u32) -> Result<()> {
    let writers = Arc::new(Semaphore::new(WRITERS));
    let mut writes = Vec::with_capacity(schedules as usize);
    for number in 0..schedules {
        let permit = Arc::clone(&writers).acquire_owned().await?;
        let client = client.clone();
        writes.push(tokio::spawn(async move {
            let yearly = Schedule::cron("0 0 1 1 *").tz("Europe/Madrid").spread(Duration::from_secs(3_600));
            let set = client.schedule(format!("schedule {number}")).when(yearly);
            let answer = set.enqueue(Nothing { i: number }).await;
            drop(permit);
            answer
        }));
    }
    for write in writes {
        write.await??;
    }
    Ok(())
}

/// The processor time that this process has used.
fn own_time() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("only Linux tells it in this way")?;
    let after_name = stat.rsplit_once(')').context("a line of stat has a name")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|field| fields.get(*field)?.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}
