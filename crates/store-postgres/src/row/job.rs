//! Jobs as rows hold them, each read by itself: what does not read is said of the one job, and the rest of it is what could
//! be read.

use std::cell::RefCell;

use tokio_postgres::Row;
use windlass_core::job::{AttemptRecord, Counters, Facts, JobRecord, LastClaim, LostJob, Spec, Unreadable};
use windlass_core::{Bytes, Fence, Name, State};

use super::{at, bytes, count, counters, facts, fence, job_id, name, names, number, parsed, span};
use super::{spec, state, time, word};
use crate::error::Fault;
use crate::jobs::unique;

/// The form of rows that this program writes, and the newest that it reads.
const FORM: i64 = 1;

/// The columns of `jobs/get.sql` and `inspect/list.sql` behind those of a job, and of the first what follows.
const BEGUN: usize = 24;
const RECORD_FORM: usize = 25;
const UNIQUE_KEY: usize = 26;
const UNIQUE_LIFETIME: usize = 27;
const KEY: usize = 28;
const ATTEMPTS: usize = 29;

/// The form of a claimed job, in `jobs/claim.sql`.
const CLAIMED_FORM: usize = 17;

/// What is wrong with a row; the first thing counts.
#[derive(Debug, Default)]
struct Trouble(RefCell<Option<Unreadable>>);

impl Trouble {
    /// The value, or what stands for it if it does not read.
    fn or<T>(&self, read: Result<T, Fault>, otherwise: T) -> T {
        read.unwrap_or_else(|fault| {
            self.note(fault);
            otherwise
        })
    }

    fn note(&self, fault: Fault) {
        let what = match fault {
            Fault::Unreadable(why) => why,
            Fault::Corrupt(what) => Unreadable::Broken(what),
            fault => Unreadable::Broken(format!("{fault:?}")),
        };
        self.0.borrow_mut().get_or_insert(what);
    }

    /// What it means for a job of this form.
    fn of(self, form: i64) -> Option<Unreadable> {
        match self.0.into_inner() {
            _ if form > FORM => Some(Unreadable::Newer { form }),
            why => why,
        }
    }
}

/// A job as `jobs/get.sql` selects it, with its attempts.
pub(crate) fn record(row: &Row) -> Result<JobRecord, Fault> {
    let trouble = Trouble::default();
    let record = fields(row, &trouble)?;
    let last = match (at::<Option<i64>>(row, 14)?, at::<Option<String>>(row, 15)?) {
        (Some(claimed_at), Some(worker)) => Some(LastClaim { worker, at: time(claimed_at) }),
        _ => None,
    };
    let attempts = attempts(at(row, ATTEMPTS)?, &trouble);
    let unreadable = trouble.of(at(row, RECORD_FORM)?);
    Ok(JobRecord { unreadable, ..record }.with_attempts(attempts, last))
}

/// A job as `inspect/list.sql` selects it, without attempts.
pub(crate) fn listed(row: &Row) -> Result<JobRecord, Fault> {
    let trouble = Trouble::default();
    let record = fields(row, &trouble)?;
    Ok(JobRecord { unreadable: trouble.of(at(row, RECORD_FORM)?), ..record })
}

fn fields(row: &Row, trouble: &Trouble) -> Result<JobRecord, Fault> {
    let nowhere = || Fault::Corrupt("it stands neither in waiting nor in running nor in ended".to_owned());
    let state = at::<Option<i64>>(row, 4)?.ok_or_else(nowhere).and_then(state);
    let unique = unique::stored(at(row, UNIQUE_KEY)?, at(row, UNIQUE_LIFETIME)?);
    let key = at::<Option<&str>>(row, KEY)?.map(|_| name(row, KEY)).transpose();
    let reason = at::<Option<&str>>(row, 17)?.map(|text| word("reason", text)).transpose();
    Ok(JobRecord {
        id: job_id(row, 1)?,
        queue: trouble.or(name(row, 2), Name::unreadable()),
        kind: trouble.or(name(row, 3), Name::unreadable()),
        // Such a job is never handed out.
        state: trouble.or(state, State::Dead),
        priority: at(row, 5)?,
        key: trouble.or(key, None),
        unique: trouble.or(unique, None),
        due_at: time(at::<Option<i64>>(row, 6)?.unwrap_or(0)),
        enqueued_at: time(at(row, 7)?),
        fence: number(at::<Option<i64>>(row, 8)?.unwrap_or(0)),
        counters: trouble.or(counters(row, 9), Counters::default()),
        cancel_requested: at(row, 13)?,
        has_begun: at(row, BEGUN)?,
        finished_at: at::<Option<i64>>(row, 16)?.map(time),
        reason: trouble.or(reason, None),
        expires_at: at::<Option<i64>>(row, 18)?.map(time),
        spec: trouble.or(spec(row, 19), Spec::default()),
        tags: trouble.or(names(row, 20), Vec::new()),
        progress: at::<Option<&[u8]>>(row, 21)?.map(Bytes::copy_from_slice),
        output: at::<Option<&[u8]>>(row, 22)?.map(Bytes::copy_from_slice),
        payload: bytes(row, 23)?,
        attempts: Vec::new(),
        unreadable: None,
    })
}

/// The stored attempts of a job as `jobs/get.sql` writes them; those that read.
fn attempts(stored: Option<&str>, trouble: &Trouble) -> Vec<AttemptRecord> {
    type Fields = (u64, u32, String, i64, i64, String, Option<String>);
    let list =
        stored.map_or(Ok(Vec::new()), |text| parsed::<Vec<serde_json::Value>>("list of attempts", text));
    let attempt = |stored: serde_json::Value| {
        let (fence, number, worker, started_at, ended_at, ending, error): Fields =
            serde_json::from_value(stored)
                .map_err(|error| Fault::Corrupt(format!("an attempt does not read back: {error}")))?;
        Ok(AttemptRecord {
            fence,
            number,
            worker,
            started_at: time(started_at),
            ended_at: Some(time(ended_at)),
            ending: Some(word("ending", &ending)?),
            error,
        })
    };
    let read = trouble.or(list, Vec::new()).into_iter().map(attempt);
    read.filter_map(|attempt| attempt.map_err(|fault| trouble.note(fault)).ok()).collect()
}

/// A running job as `leases/lost.sql` and `leases/held.sql` select it.
pub(crate) fn lost(row: &Row) -> Result<LostJob, Fault> {
    let trouble = Trouble::default();
    trouble.or(names(row, 13).map(drop), ());
    let job = LostJob {
        id: job_id(row, 0)?,
        fence: fence(row, 1)?,
        facts: readable_facts(row, [3, 7], &trouble),
        queue: trouble.or(name(row, 8), Name::unreadable()),
        kind: trouble.or(name(row, 9), Name::unreadable()),
        worker: at(row, 10)?,
        has_begun: at(row, 11)?,
        unreadable: None,
    };
    Ok(LostJob { unreadable: trouble.of(at(row, 12)?), ..job })
}

/// Whether a claimed job, as `jobs/claim.sql` selects it, is of a form that this program knows.
pub(crate) fn is_known_form(row: &Row) -> Result<bool, Fault> {
    Ok(at::<i64>(row, CLAIMED_FORM)? <= FORM)
}

/// A claimed job that does not read.
pub(crate) fn unreadable(row: &Row, fence: Fence, queue: &Name, worker: &str) -> Result<LostJob, Fault> {
    let trouble = Trouble::default();
    let facts = readable_facts(row, [8, 12], &trouble);
    let kind = trouble.or(name(row, 4), Name::unreadable());
    trouble.or(names(row, 13).map(drop), ());
    let (queue, worker) = (queue.clone(), worker.to_owned());
    let unreadable = trouble.of(at(row, CLAIMED_FORM)?);
    Ok(LostJob { id: job_id(row, 2)?, fence, facts, queue, kind, worker, has_begun: false, unreadable })
}

/// What can be read of the counters and the options at these columns.
fn readable_facts(row: &Row, [first_counter, spec]: [usize; 2], trouble: &Trouble) -> Facts {
    facts(row, first_counter, spec).unwrap_or_else(|fault| {
        trouble.note(fault);
        // Counters as far as they are numbers: what was used stays used.
        let counted = |column: usize| at(row, column).and_then(count).unwrap_or(0);
        let counters = Counters {
            attempt: counted(first_counter),
            stalls: counted(first_counter + 1),
            ambiguous: counted(first_counter + 2),
            backoff: at(row, first_counter + 3).map_or_else(|_| Counters::default().backoff, span),
        };
        Facts { counters, spec: Spec::default() }
    })
}
