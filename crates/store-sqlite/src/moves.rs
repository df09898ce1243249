//! How a job changes its state: the only code that does it, for the store's own calls and for transactions of the
//! user's own.
//!
//! Each function here runs one statement of `queries/moves` and tells [`moved`] which job went from which state to
//! which, and why. So counters and rings cannot drift from the rows.

use windlass_core::bell::Rings;
use windlass_core::clock::Timestamp;
use windlass_core::judge::Transition;
use windlass_core::outcome::{Ending, Reason};
use windlass_core::store::{Cause, Move, Told};
use windlass_core::{Name, NewJob, State};

use crate::counters::Deltas;
use crate::error::Fault;
use crate::gates;
use crate::keys;
use crate::row;
use crate::tallies::{Counted, KindPlace};
use crate::transaction::{Field, Transaction};

/// A statement about many jobs, and the same about one. A list of jobs costs several times as much as the rest of the
/// statement, and most often there is one.
macro_rules! by_seq {
    ($name:literal) => {
        BySeq {
            many: include_str!(concat!("../queries/moves/", $name, ".sql")),
            one: include_str!(concat!("../queries/moves/", $name, "_one.sql")),
        }
    };
}

const PROMOTE: BySeq = by_seq!("promote");
const CLAIM: BySeq = by_seq!("claim");
const COMPLETE: BySeq = by_seq!("complete");
const SETTLE: &str = include_str!("../queries/moves/settle.sql");
const END: &str = include_str!("../queries/moves/end.sql");
const RESTART: &str = include_str!("../queries/moves/restart.sql");
const HASTEN: &str = include_str!("../queries/moves/hasten.sql");
const DELETE: BySeq = by_seq!("delete");
const DELETE_PAYLOADS: BySeq = by_seq!("delete_payloads");
const DELETE_ATTEMPTS: BySeq = by_seq!("delete_attempts");

/// What the mark of a row says when a reaper has put its job back.
const REAPED: i64 = 2;

/// What the operations of one transaction have moved: written and rung when it ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moves {
    pub(crate) counts: Deltas,
    pub(crate) rings: Rings,
    pub(crate) tallies: Counted,
}

/// A job, and where it stands before it moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    pub(crate) seq: i64,
    pub(crate) queue: &'a Name,
    pub(crate) state: State,
    /// Whether it has a unique key, which it may hold. Not looked at where no key ends with the move: see `keys`.
    pub(crate) has_key: bool,
    /// Whether it has a key of a gate. Looked at where it becomes ready, and where it ran.
    pub(crate) has_gate: bool,
    /// Its kind; looked at where the move is counted.
    pub(crate) kind: KindPlace,
    /// When it was due, or claimed if an attempt of it ends; looked at where it starts and where an attempt ends.
    pub(crate) since: Option<Timestamp>,
}

/// Who takes jobs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) nonce: u64,
    pub(crate) lease: i64,
    pub(crate) worker: &'a str,
}

/// Jobs were inserted.
pub(crate) async fn enter<T: Transaction>(tx: &mut T, jobs: &[(i64, &NewJob)]) -> Result<(), T::Error> {
    let (now, mut keyed) = (tx.now(), Vec::new());
    for &(seq, job) in jobs {
        let NewJob { queue, kind, key, .. } = job;
        let state = job.entry(now).0;
        let (to, told) = (Some(state), Told::default());
        let mut place = KindPlace::default();
        tx.note(|moves| place = moves.tallies.kind(kind.as_str()));
        let change = Move { queue, kind: Some(kind), from: None, to, cause: Cause::Accepted, told };
        moved(tx, place, change);
        if key.is_some() && state == State::Ready {
            keyed.push(seq);
        }
    }
    if keyed.is_empty() { Ok(()) } else { gates::came(tx, &keyed).await }
}

/// The time of jobs has come.
pub(crate) async fn promote<T: Transaction>(tx: &mut T, jobs: &[Standing<'_>]) -> Result<(), T::Error> {
    let (sql, seqs) = PROMOTE.of(jobs);
    change(tx, sql, &[seqs], jobs, Way::new(Some(State::Ready), Cause::Due)).await
}

/// A worker takes jobs.
pub(crate) async fn claim<T: Transaction>(
    tx: &mut T,
    jobs: &[Standing<'_>],
    Claim { nonce, lease, worker }: Claim<'_>,
) -> Result<(), T::Error> {
    let (now, (sql, seqs)) = (tx.now().as_micros(), CLAIM.of(jobs));
    let fields = [seqs, row::to_stored(nonce).into(), now.into(), lease.into(), worker.into()];
    change(tx, sql, &fields, jobs, Way::new(Some(State::Running), Cause::Claimed)).await
}

/// Attempts have completed, and leave nothing to write but that.
pub(crate) async fn complete<T: Transaction>(tx: &mut T, jobs: &[Standing<'_>]) -> Result<(), T::Error> {
    let (sql, seqs) = COMPLETE.of(jobs);
    let fields = [seqs, tx.now().as_micros().into()];
    let way = Way::new(Some(State::Completed), Cause::Settled).ending(None, Ending::Completed);
    change(tx, sql, &fields, jobs, way).await
}

/// An attempt has ended as the transition says.
pub(crate) async fn settle<T: Transaction>(
    tx: &mut T,
    job: Standing<'_>,
    next: &Transition,
    cause: Cause,
) -> Result<(), T::Error> {
    let (now, counters) = (tx.now(), next.counters);
    let mark = (cause == Cause::Reaped && next.state.is_waiting()).then_some(REAPED);
    let fields = [
        job.seq.into(),
        i64::from(next.state.code()).into(),
        next.delay().map(|delay| now.plus(delay).as_micros()).into(),
        i64::from(counters.attempt).into(),
        i64::from(counters.stalls).into(),
        i64::from(counters.ambiguous).into(),
        row::micros(counters.backoff).into(),
        next.reason.map(|reason| reason.as_str().to_owned()).into(),
        next.finished_at(now).map(Timestamp::as_micros).into(),
        next.kept_output().into(),
        mark.into(),
    ];
    change(tx, SETTLE, &fields, &[job], Way::new(Some(next.state), cause).ending(next.reason, next.ending))
        .await
}

/// An attempt has ended in a state that the queue does not keep. Answers the job as it stands then, for the caller to
/// [`remove`] in the same transaction, which frees its key.
pub(crate) async fn end_unkept<'a, T: Transaction>(
    tx: &mut T,
    job: Standing<'a>,
    next: &Transition,
    cause: Cause,
) -> Result<Standing<'a>, T::Error> {
    pass_gates(tx, &[job], Some(next.state)).await?;
    let way = Way::new(Some(next.state), cause).ending(next.reason, next.ending);
    moved(tx, job.kind, job.moves(way));
    Ok(Standing { state: next.state, ..job })
}

/// A waiting job ends without an attempt.
pub(crate) async fn end<T: Transaction>(
    tx: &mut T,
    job: Standing<'_>,
    state: State,
    (reason, cause): (Reason, Cause),
) -> Result<(), T::Error> {
    let now = tx.now().as_micros();
    let fields = [job.seq.into(), i64::from(state.code()).into(), reason.as_str().into(), now.into()];
    change(tx, END, &fields, &[job], Way { reason: Some(reason), ..Way::new(Some(state), cause) }).await
}

/// A job is sent to `ready`. One that was held or waited for its time goes as it is. One that had ended begins anew, and its
/// expiry no longer counts: it is asked for now.
pub(crate) async fn restart<T: Transaction>(tx: &mut T, job: Standing<'_>) -> Result<(), T::Error> {
    let sql = if job.state.is_terminal() { RESTART } else { HASTEN };
    let fields = [job.seq.into(), tx.now().as_micros().into()];
    change(tx, sql, &fields, &[job], Way::new(Some(State::Ready), Cause::Requested)).await
}

/// Removes jobs with all that belongs to them.
pub(crate) async fn remove<T: Transaction>(
    tx: &mut T,
    jobs: &[Standing<'_>],
    cause: Cause,
) -> Result<(), T::Error> {
    for belonging in [DELETE_PAYLOADS, DELETE_ATTEMPTS] {
        let (sql, seqs) = belonging.of(jobs);
        tx.run(sql, &[seqs]).await?;
    }
    let (sql, seqs) = DELETE.of(jobs);
    change(tx, sql, &[seqs], jobs, Way::new(None, cause)).await
}

/// The one way in which rows change their state. Unique keys are given up here, in the same transaction, as their
/// lifetime says.
async fn change<T: Transaction>(
    tx: &mut T,
    sql: &'static str,
    fields: &[Field<'_>],
    jobs: &[Standing<'_>],
    way: Way,
) -> Result<(), T::Error> {
    let to = way.to;
    if let Some(job) = jobs.iter().find(|job| !job.moves(way).is_allowed()) {
        let to = to.map_or("removed", State::as_str);
        return Err(Fault::Defect(format!("a {} job was told to be {to}", job.state)).into());
    }
    // Before the rows are written, for those of removed jobs say which keys they hold.
    for job in jobs.iter().filter(|job| job.has_key) {
        keys::give_up(tx, *job, to).await?;
    }
    pass_gates(tx, jobs, to).await?;
    tx.run(sql, fields).await?;
    for job in jobs {
        moved(tx, job.kind, job.moves(way));
    }
    Ok(())
}

/// Tells the gates which of their jobs run no longer, and which become ready. Called before the rows are written, as for
/// unique keys.
async fn pass_gates<T: Transaction>(
    tx: &mut T,
    jobs: &[Standing<'_>],
    to: Option<State>,
) -> Result<(), T::Error> {
    if !jobs.iter().any(|job| job.has_gate) {
        return Ok(());
    }
    let keyed = || jobs.iter().filter(|job| job.has_gate);
    let mut ended: Vec<_> = keyed().filter(|job| job.state == State::Running).collect();
    while let Some(queue) = ended.first().map(|job| job.queue) {
        let of_queue: Vec<_> = ended.iter().filter(|job| job.queue == queue).map(|job| job.seq).collect();
        gates::ended(tx, queue, &of_queue).await?;
        ended.retain(|job| job.queue != queue);
    }
    if to == Some(State::Ready) {
        let came: Vec<_> = keyed().map(|job| job.seq).collect();
        gates::came(tx, &came).await?;
    }
    Ok(())
}

/// What every change of state brings with it. A capability that has to act when jobs change their state acts here, in
/// the order of the comments and in the same transaction.
fn moved<T: Transaction>(tx: &mut T, kind: KindPlace, change: Move<'_>) {
    let now = tx.now();
    tx.note(|moves| {
        for (state, jobs) in [(change.from, -1), (change.to, 1)] {
            if let Some(state) = state {
                moves.counts.add(change.queue, state, jobs);
            }
        }
        if let Some(cell) = change.cell(now) {
            moves.tallies.add(change.queue, kind, cell);
        }
        change.ring(&mut moves.rings);
    });
    // Dependents: the end of a parent is told to the jobs that wait for it here, a bounded number at a time.
}

impl<'a> Standing<'a> {
    fn moves(self, Way { to, cause, reason, ending }: Way) -> Move<'a> {
        let told = Told { reason, ending, since: self.since };
        Move { queue: self.queue, kind: None, from: Some(self.state), to, cause, told }
    }
}

/// Where jobs go, and why.
#[derive(Debug, Clone, Copy)]
struct Way {
    to: Option<State>,
    cause: Cause,
    reason: Option<Reason>,
    ending: Option<Ending>,
}

impl Way {
    const fn new(to: Option<State>, cause: Cause) -> Self {
        Self { to, cause, reason: None, ending: None }
    }

    /// With the end of an attempt.
    const fn ending(self, reason: Option<Reason>, ending: Ending) -> Self {
        Self { reason, ending: Some(ending), ..self }
    }
}

/// A statement that finds jobs by their place in the order of acceptance, as its first parameter says.
#[derive(Clone, Copy)]
struct BySeq {
    many: &'static str,
    one: &'static str,
}

impl BySeq {
    /// What to run for these jobs, and its first parameter.
    fn of(self, jobs: &[Standing<'_>]) -> (&'static str, Field<'static>) {
        match jobs {
            [job] => (self.one, job.seq.into()),
            _ => (self.many, Some(row::list(jobs.iter().map(|job| job.seq))).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_one_job_is_said_of_many() {
        for BySeq { many, one } in [PROMOTE, CLAIM, COMPLETE, DELETE, DELETE_PAYLOADS, DELETE_ATTEMPTS] {
            assert_eq!(many.replace("seq IN (SELECT value FROM json_each(?1))", "seq = ?1"), one);
            assert_ne!(many, one);
        }
    }
}
