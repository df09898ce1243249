//! Leases when the clock is set. Instants follow the clock, so without this a clock that is set forward would end
//! every lease, and one that is set back would let the leases of dead workers live for as long as it was set.
//!
//! Each process that has the store open notices by itself, at its next write. The first one gives what lives one more
//! term and leaves a note of it; to the others the note says that it is done.

use std::time::Duration;

use rusqlite::params;
use windlass_core::clock::Step;

use crate::error::Fault;
use crate::row;
use crate::session::Session;

const OUTLIVE: &str = include_str!("../../queries/leases/outlive.sql");
const SHORTEN: &str = include_str!("../../queries/leases/shorten.sql");
const STEPPED: &str = include_str!("../../queries/leases/stepped.sql");
const NOTE_STEP: &str = include_str!("../../queries/leases/note_step.sql");

/// The term of a lease that does not say its own.
const TTL_DEFAULT: Duration = Duration::from_secs(30);
/// How far apart two processes may see the same step, and the moment of it.
const APART_MICROS: i64 = 2_000_000;

/// Gives what lived when the clock was set one more term. What was lost stays lost.
pub(crate) fn outlive(session: &Session<'_>, step: Step) -> Result<(), Fault> {
    if is_done(session, step)? {
        return Ok(());
    }
    let (unset, now) = (step.unset.as_micros(), step.now.as_micros());
    let leases = session.prepare(OUTLIVE)?.execute([unset, now, row::micros(TTL_DEFAULT)])?;
    session.prepare(NOTE_STEP)?.execute([now, step.micros()])?;
    tracing::warn!(
        seconds = step.micros() / 1_000_000,
        leases,
        "the clock was set, leases get one more term"
    );
    Ok(())
}

/// Whether another process has seen the same step since it happened.
fn is_done(session: &Session<'_>, step: Step) -> Result<bool, Fault> {
    let noted = session
        .prepare(STEPPED)?
        .query_row([], |row| Ok(row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?)))?;
    let Some((at, by)) = noted else { return Ok(false) };
    let now = step.now.as_micros();
    let since = step.now.minus(step.within).as_micros().saturating_sub(APART_MICROS);
    let is_since = (since..=now.saturating_add(APART_MICROS)).contains(&at);
    Ok(is_since && by.saturating_sub(step.micros()).saturating_abs() <= APART_MICROS)
}

/// No lease lives longer than its term. One that would was renewed before the clock was set back, while no program
/// had the store open to notice.
pub(crate) fn shorten(session: &Session<'_>) -> Result<(), Fault> {
    session.prepare(SHORTEN)?.execute(params![session.now.as_micros()])?;
    Ok(())
}
