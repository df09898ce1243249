//! `dead list` and `dead sample`: dead jobs with the error that each died of.

use serde::Serialize;
use windlass::worker::{DeadLetter, DeadLetters};
use windlass_core::store::Cursor;

use super::{check_known, letters};
use crate::args::{DeadListArgs, DeadSampleArgs};
use crate::exit::Exit;
use crate::output::json::JobJson;
use crate::output::{cell, keep_whole, text};
use crate::session::{Access, Session};

/// Dead jobs that one call looks at, at most.
const PAGE: u32 = 500;

/// A dead job of a list, for programs.
#[derive(Debug, Serialize)]
struct LetterJson<'a> {
    #[serde(flatten)]
    job: JobJson<'a>,
    fingerprint: String,
    cause: String,
}

#[derive(Debug, Serialize)]
struct Page<'a> {
    jobs: Vec<LetterJson<'a>>,
    looked: u64,
    next: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Sample<'a> {
    jobs: Vec<LetterJson<'a>>,
}

#[derive(Debug, Default)]
struct Found {
    letters: Vec<DeadLetter>,
    looked: u64,
    next: Option<Cursor>,
}

pub(crate) async fn run(session: &mut Session, args: DeadListArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let letters = letters(&client, &args.filter).await?;
    let found = find(&letters, args.after.map(Cursor), args.limit as usize, args.reach.look).await?;
    if found.letters.is_empty() && found.next.is_none() {
        check_known(session, &client, &args.filter).await?;
    }
    let Found { letters, looked, next } = &found;
    if session.output.is_json() {
        let next = next.as_ref().map(|cursor| cursor.0.as_str());
        session.output.json(&Page { jobs: shown(letters), looked: *looked, next })?;
        return Ok(Exit::Done);
    }
    print(session, letters)?;
    if let Some(cursor) = next {
        session.note(&format!("looked at {looked} dead jobs, there are more: repeat with --after {cursor}"));
    }
    Ok(Exit::Done)
}

/// Looks until so many are found, or at so many. The size of a page follows what is found, so that a filter which few jobs
/// match costs few calls, and no page brings more than are wanted: its cursor would pass over the surplus.
async fn find(
    letters: &DeadLetters,
    after: Option<Cursor>,
    limit: usize,
    look: u64,
) -> windlass::Result<Found> {
    if after.as_ref().is_none_or(DeadLetters::is_indexed_cursor)
        && let Some(found) = find_indexed(letters, after.as_ref(), limit, look).await?
    {
        return Ok(found);
    }
    let (mut found, mut size) = (Found { next: after, ..Found::default() }, PAGE);
    loop {
        let page = letters.page(found.next.as_ref(), size).await?;
        if page.letters.len() > limit - found.letters.len() && size > 1 {
            size /= 2;
            continue;
        }
        found.letters.extend(page.letters);
        found.looked += page.looked;
        found.next = page.next;
        if found.next.is_none() || found.letters.len() >= limit || found.looked >= look {
            return Ok(found);
        }
        size = (size * 2).min(PAGE);
    }
}

/// The same by the index of a queue; nothing where there is none. What the index does not have yet comes with the first page,
/// whole.
async fn find_indexed(
    letters: &DeadLetters,
    after: Option<&Cursor>,
    limit: usize,
    look: u64,
) -> windlass::Result<Option<Found>> {
    let mut size = u32::try_from(limit).unwrap_or(PAGE).clamp(1, PAGE);
    let Some(page) = letters.indexed(after, size).await? else { return Ok(None) };
    let mut found = Found { letters: page.letters, looked: page.looked, next: page.next };
    while found.next.is_some() && found.letters.len() < limit && found.looked < look {
        let Some(page) = letters.indexed(found.next.as_ref(), size).await? else { break };
        if page.letters.len() > limit - found.letters.len() && size > 1 {
            size /= 2;
            continue;
        }
        found.letters.extend(page.letters);
        found.looked += page.looked;
        found.next = page.next;
        size = (size * 2).min(PAGE);
    }
    Ok(Some(found))
}

pub(crate) async fn sample(session: &mut Session, args: &DeadSampleArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let letters = letters(&client, &args.filter).await?.sample(args.count as usize, args.reach.look).await?;
    if letters.is_empty() {
        check_known(session, &client, &args.filter).await?;
    }
    if session.output.is_json() {
        session.output.json(&Sample { jobs: shown(&letters) })?;
    } else {
        print(session, &letters)?;
    }
    Ok(Exit::Done)
}

fn shown(letters: &[DeadLetter]) -> Vec<LetterJson<'_>> {
    let of = |letter: &'_ DeadLetter| (letter.fingerprint.to_string(), letter.cause());
    let jobs = letters.iter().map(|letter| JobJson::listed(&letter.job));
    let parts = jobs.zip(letters.iter().map(of));
    parts.map(|(job, (fingerprint, cause))| LetterJson { job, fingerprint, cause }).collect()
}

fn print(session: &mut Session, letters: &[DeadLetter]) -> anyhow::Result<()> {
    if letters.is_empty() {
        session.note("no dead jobs");
        return Ok(());
    }
    let format = session.output.format();
    let mut table = session.output.new_table(&["ID", "QUEUE", "KIND", "TRY", "DIED", "FINGERPRINT", "ERROR"]);
    for letter in letters {
        let job = &letter.job;
        table.add_row([
            cell(job.id.to_string()),
            cell(&job.queue),
            cell(&job.kind),
            cell(format!("{}/{}", job.counters.attempt, job.spec.retry.attempts_max())),
            cell(job.finished_at.map(|died| text::instant(died, format)).unwrap_or_default()),
            cell(letter.fingerprint.to_string()),
            cell(text::first_line(&letter.cause())),
        ]);
    }
    keep_whole(&mut table, &[0, 1, 2, 3, 4, 5]);
    Ok(session.output.table(table)?)
}
