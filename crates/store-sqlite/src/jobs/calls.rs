//! Calls that were accepted, remembered for a while: a repeat stores nothing, also when the jobs have run and are
//! gone meanwhile.
//!
//! A call is remembered in the present period and looked for in that and the ones before it. A period lasts half of
//! [`CALL_MEMORY`] at least, and is followed by the next only when a call comes, so no call is forgotten early, whatever
//! the clock is set to.

use rusqlite::{OptionalExtension, params};
use windlass_core::CallId;
use windlass_core::store::CALL_MEMORY;

use crate::error::Fault;
use crate::row;
use crate::session::Session;

const PERIOD: &str = include_str!("../../queries/calls/period.sql");
const BEGIN_PERIOD: &str = include_str!("../../queries/calls/begin_period.sql");
const END_PERIODS: &str = include_str!("../../queries/calls/end_periods.sql");
const REMEMBER: &str = include_str!("../../queries/calls/remember.sql");
const TAKE_BACK: &str = include_str!("../../queries/calls/take_back.sql");
const FORGET: &str = include_str!("../../queries/calls/forget.sql");

/// Periods before the present one in which a call is known, as `calls/remember.sql` has it: one more than memory
/// needs, for a clock that is set forward.
const KNOWN_BEFORE: i64 = 3;
/// Calls that one transaction forgets: as many as it can bring.
const FORGET_MAX: i64 = 256;

/// Remembers a call. False if it is known already.
pub(super) fn remember(session: &Session<'_>, call: CallId) -> Result<bool, Fault> {
    let period = period(session)?;
    Ok(session.prepare(REMEMBER)?.execute(params![period, call.as_bytes()])? == 1)
}

/// The call was refused: nothing of it is left.
pub(super) fn take_back(session: &Session<'_>, call: CallId) -> Result<(), Fault> {
    session.prepare(TAKE_BACK)?.execute(params![period(session)?, call.as_bytes()])?;
    Ok(())
}

/// The present period. The next one begins when it is over, or when the clock was set back.
fn period(session: &Session<'_>) -> Result<i64, Fault> {
    if let Some(period) = session.period.get() {
        return Ok(period);
    }
    let last = session.prepare(PERIOD)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let (period, since): (i64, i64) = last.unwrap_or((0, i64::MAX));
    let now = session.now.as_micros();
    let is_over = now < since || now.saturating_sub(since) >= row::micros(CALL_MEMORY / 2);
    let period = period + i64::from(is_over);
    if is_over {
        session.prepare(BEGIN_PERIOD)?.execute([period, now])?;
        session.prepare(END_PERIODS)?.execute([period])?;
    }
    session.period.set(Some(period));
    Ok(period)
}

/// Forgets some of the calls that nobody may repeat any more, if this transaction brought one. `clean` says in which
/// period nothing was left to forget.
pub(crate) fn forget(session: &Session<'_>, clean: i64) -> Result<i64, Fault> {
    let Some(period) = session.period.get().filter(|period| *period != clean) else { return Ok(clean) };
    let gone = session.prepare(FORGET)?.execute([period - KNOWN_BEFORE, FORGET_MAX])?;
    Ok(if (gone as i64) < FORGET_MAX { period } else { clean })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rusqlite::Connection;
    use windlass_core::clock::Timestamp;

    use super::*;
    use crate::migrate;

    const NOON: Timestamp = Timestamp::from_micros(1_893_456_000_000_000);

    fn connection() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        migrate::run(&connection).unwrap();
        connection
    }

    /// Whether a call is new, so long after noon.
    fn is_new(connection: &Connection, call: CallId, seconds: u64) -> bool {
        let session = Session::new(connection, NOON.plus(Duration::from_secs(seconds)));
        let is_new = remember(&session, call).unwrap();
        forget(&session, 0).unwrap();
        is_new
    }

    #[test]
    fn a_call_is_known_for_as_long_as_it_may_be_repeated_and_forgotten_later() {
        let connection = connection();
        let call = CallId::new();
        assert!(is_new(&connection, call, 59));
        for seconds in (60..=59 + CALL_MEMORY.as_secs()).step_by(10) {
            is_new(&connection, CallId::new(), seconds);
            assert!(!is_new(&connection, call, seconds), "after {seconds} s");
        }
        for seconds in (200..700).step_by(100) {
            is_new(&connection, CallId::new(), seconds);
        }
        let left: i64 =
            connection.query_row("SELECT count(*) FROM windlass_calls", [], |row| row.get(0)).unwrap();
        assert!(left < 8, "old calls are forgotten, {left} are left");
        assert!(is_new(&connection, call, 700));
    }

    #[test]
    fn a_clock_that_is_set_forgets_nothing() {
        for later in [7_200, 0] {
            let connection = connection();
            let call = CallId::new();
            assert!(is_new(&connection, call, 3_600));
            assert!(!is_new(&connection, call, later));
            is_new(&connection, CallId::new(), later + 60);
            assert!(!is_new(&connection, call, later + 119), "{later}");
        }
    }
}
