//! Tallies: statements add what they do to rows without an index; here these are folded, and read together with what was folded
//! before.

use async_trait::async_trait;
use windlass_core::Name;
use windlass_core::store::{StoreResult, Tallies};
use windlass_core::tally::{Cell, Gather, Interval, KINDS_MAX, Row, Tally, Window};

use crate::PostgresStore;
use crate::connect::Call;
use crate::error::Fault;
use crate::functions::{FOLD_TALLIES, TALLIES};
use crate::row::{self, at};
use crate::session::Session;

#[async_trait]
impl Tallies for PostgresStore {
    async fn tallies(&self, window: &Window) -> StoreResult<Vec<Row>> {
        window.check()?;
        let window = window.clone();
        self.remote.call(Call::READ, async move |_, session| read(&session, &window).await).await
    }
}

async fn read(session: &Session, window: &Window) -> Result<Vec<Row>, Fault> {
    let queues: Vec<&str> = window.queues.iter().map(Name::as_str).collect();
    let (first, last) = window.bounds();
    let step = window.interval.minutes();
    let found = session.call(&TALLIES, &[&queues, &first.as_micros(), &last.as_micros(), &step]).await?;
    let Some(one) = found.first() else { return Ok(Vec::new()) };
    let mut gather = Gather::new(window, row::time(at(one, 0)?));
    for row in &found {
        let (step, since): (i64, i64) = (at(row, 1)?, at(row, 3)?);
        let Ok(queue) = Name::new(at::<&str>(row, 2)?) else { continue };
        let kind = Name::new(at::<&str>(row, 4)?).ok();
        let (cells, times): (Vec<i16>, Vec<i64>) = (at(row, 5)?, at(row, 6)?);
        let cells = cells.into_iter().map(|cell| Cell::from_number(cell.unsigned_abs()));
        let tally: Tally = cells.zip(times.into_iter().map(i64::unsigned_abs)).collect();
        match Interval::of_minutes(step) {
            Some(interval) => gather.add_kept(&queue, kind, interval, row::time(since), &tally),
            None => gather.add_fresh(&queue, kind, row::time(since), &tally),
        }
    }
    Ok(gather.rows())
}

/// Folds the rows that calls have added, and removes what is no longer kept. Answers how many rows.
pub(crate) async fn fold(session: &Session, most: i64) -> Result<i64, Fault> {
    let kinds = i64::try_from(KINDS_MAX).unwrap_or(i64::MAX);
    let ages: Vec<i64> = Interval::ALL.iter().map(|interval| row::micros(interval.removed_after())).collect();
    at(&session.call_one(&FOLD_TALLIES, &[&most, &kinds, &ages]).await?, 0)
}
