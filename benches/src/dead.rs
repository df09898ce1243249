//! Searching dead letters: by fingerprint, in pages and by the index of their queue, and by a field of the payload.
//!
//! A search ends when it has a page of 50. One in 1,000 dead jobs has the error that is looked for, one in 100 the field.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use windlass::core::fingerprint::Fingerprint;
use windlass::core::job::{ClaimedJob, NewJob};
use windlass::core::judge;
use windlass::core::outcome::Failure;
use windlass::core::store::{Settled, Settlement, SharedStore};
use windlass::worker::{DeadFilter, DeadLetters, Job as _, Redriver};
use windlass::{Client, Options, Outcome};

use crate::ours::Nothing;
use crate::records::{claim, leased};
use crate::report::{self, Report};
use crate::subject::Subject;

/// Jobs that one call accepts, claims or ends.
const BATCH: u32 = 500;
/// Results that a search wants.
const WANTED: usize = 50;
/// How many dead jobs one page looks at.
const PAGE: u32 = 500;
/// One in so many has the error, and one in so many the field.
const ERRORS: u32 = 1_000;
const REGIONS: u32 = 100;
const SEARCHES: usize = 9;

/// Measures the stores whose name contains this, as far as they keep records.
pub(crate) async fn run(is_quick: bool, only: Option<&str>, mut report: Report) -> Result<()> {
    let jobs = if is_quick { 100_000 } else { 1_000_000 };
    let is_meant = |subject: &Subject| only.is_none_or(|only| subject.name().contains(only));
    for subject in Subject::ALL.into_iter().filter(is_meant) {
        let place = subject.place()?;
        let client = place.client().await?;
        report.progress(&format!("{}: {jobs} jobs die", subject.name()));
        let began = Instant::now();
        bury(&client, jobs).await?;
        let died = f64::from(jobs) / began.elapsed().as_secs_f64();
        report.progress(&format!("{}: {}/s; searches", subject.name(), report::whole(died)));
        search(subject, &client, jobs, &mut report).await?;
    }
    report.print();
    Ok(())
}

async fn search(subject: Subject, client: &Client, jobs: u32, report: &mut Report) -> Result<()> {
    let default = || DeadFilter::new().queue("default");
    let page = median(async || {
        let began = Instant::now();
        client.dead(default()?.field("region", "none")).page(None, PAGE).await?;
        Ok(began.elapsed())
    });
    report.figure(subject, &format!("a page of {PAGE} dead jobs, looked through"), shown(page.await?));
    let by_field = client.dead(default()?.field("region", 7));
    let (time, looked) = paged(&by_field).await?;
    let work = format!("{WANTED} by a field that 1 in {REGIONS} has, looked at {looked}");
    report.figure(subject, &work, shown(time));
    let by_error = client.dead(default()?.fingerprint(Fingerprint::of(Nothing::KIND, &error(7))));
    let (time, looked) = paged(&by_error).await?;
    let work = format!("{WANTED} by a fingerprint that 1 in {ERRORS} has, in pages, looked at {looked}");
    report.figure(subject, &work, shown(time));

    client.index_dead("default").await?;
    let redriver = Redriver::new(Arc::clone(client.store())).hold_back(Duration::ZERO);
    let began = Instant::now();
    while redriver.run_once().await?.has_more {}
    let rate = f64::from(jobs) / began.elapsed().as_secs_f64();
    report.figure(subject, "entries of the index, written", format!("{}/s", report::whole(rate)));
    let indexed = median(async || {
        let began = Instant::now();
        let page = by_error.indexed(None, WANTED as u32).await?.context("there is an index")?;
        ensure!(page.letters.len() == WANTED, "{} were found", page.letters.len());
        Ok(began.elapsed())
    });
    let work = format!("{WANTED} by a fingerprint that 1 in {ERRORS} of {jobs} has, by the index");
    report.figure(subject, &work, shown(indexed.await?));
    Ok(())
}

/// How long a search in pages takes, and how far it looked.
async fn paged(letters: &DeadLetters) -> Result<(Duration, u64)> {
    let mut looked = 0;
    let time = median(async || {
        let (began, mut found, mut after) = (Instant::now(), 0, None);
        looked = 0;
        while found < WANTED {
            let page = letters.page(after.as_ref(), PAGE).await?;
            (found, looked) = (found + page.letters.len(), looked + page.looked);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        ensure!(found >= WANTED, "{found} were found");
        Ok(began.elapsed())
    });
    Ok((time.await?, looked))
}

async fn median(mut search: impl AsyncFnMut() -> Result<Duration>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..SEARCHES {
        times.push(search().await?);
    }
    Ok(report::percentile(&times, 50))
}

fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// So many jobs that die.
async fn bury(client: &Client, jobs: u32) -> Result<()> {
    let (store, lease) = leased(client).await?;
    for start in (0..jobs).step_by(BATCH as usize) {
        let new = |i: u32| {
            let payload = format!(r#"{{"i":{i},"region":{},"to":"ada@example.org"}}"#, i % REGIONS);
            Ok(NewJob::new(Nothing::KIND, payload, Options::new())?)
        };
        let batch: Vec<NewJob> = (start..jobs.min(start + BATCH)).map(new).collect::<Result<_>>()?;
        let mut left = batch.len();
        store.enqueue(batch.into()).await?;
        while left > 0 {
            let claimed = claim(&store, lease, BATCH).await?;
            ensure!(!claimed.is_empty(), "{left} jobs were not claimed");
            left -= claimed.len();
            kill(&store, &claimed, start).await?;
        }
    }
    Ok(())
}

async fn kill(store: &SharedStore, claimed: &[ClaimedJob], start: u32) -> Result<()> {
    let end = |(i, job): (u32, &ClaimedJob)| {
        let failure = Failure::error(error((start + i) % ERRORS));
        let transition = judge(&job.facts, Outcome::Fail { failure }, 0.5);
        Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
    };
    let ends: Vec<_> = (0..).zip(claimed).map(end).collect();
    let settled = store.settle(ends.into()).await?;
    ensure!(settled.iter().all(|answer| matches!(answer, Settled::Applied(_))), "a job did not die");
    Ok(())
}

/// An error of its own for each number: a fingerprint does not look at digits.
fn error(number: u32) -> String {
    let letter = |digit: u32| char::from_digit(10 + digit % 10, 36).unwrap_or('x');
    let word: String = [number / 100, number / 10, number].map(letter).iter().collect();
    format!("the upstream {word} did not answer order {number}")
}
