//! Finding jobs, the newest first.

use async_trait::async_trait;
use windlass_core::store::{
    Cursor, EndPlace, Ended, Filter, Inspect, JobPage, PAGE_MAX, SCAN_MAX, StoreResult,
};
use windlass_core::stored::time;
use windlass_core::{Name, State};

use crate::PostgresStore;
use crate::connect::Call;
use crate::error::Fault;
use crate::functions::{ENDED, LIST};
use crate::row::{self, at};
use crate::session::Parameters;

/// A page with this many bytes of payload, output and progress is full.
const PAGE_BYTES: i64 = 16 << 20;

#[async_trait]
impl Inspect for PostgresStore {
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage> {
        let before = after.map_or(Ok(i64::MAX), Cursor::number)?;
        if limit == 0 {
            return Ok(JobPage::default());
        }
        let filter = filter.clone();
        self.remote
            .call(Call::READ, async move |_, session| {
                let [queue, kind, tag] =
                    [&filter.queue, &filter.kind, &filter.tag].map(|name| name.as_ref().map(Name::as_str));
                let state = filter.state.map(|state| i64::from(state.code()));
                let (scan, limit) = (i64::from(SCAN_MAX), i64::from(limit.min(PAGE_MAX)));
                let parameters: Parameters<'_> =
                    &[&before, &queue, &kind, &state, &tag, &scan, &limit, &PAGE_BYTES];
                let rows = session.call(&LIST, parameters).await?;
                let Some((end, jobs)) = rows.split_last() else {
                    return Err(Fault::Corrupt("a page has no end".to_owned()));
                };
                let next = at::<Option<i64>>(end, 0)?.map(Cursor::before);
                let jobs = jobs.iter().map(row::job::listed).collect::<Result<_, Fault>>()?;
                Ok(JobPage { jobs, next })
            })
            .await
    }

    async fn ended(
        &self,
        queue: &Name,
        state: State,
        after: EndPlace,
        limit: u32,
    ) -> StoreResult<Vec<Ended>> {
        let queue = queue.clone();
        self.remote
            .call(Call::READ, async move |_, session| {
                let (state, limit) = (i64::from(state.code()), i64::from(limit.min(PAGE_MAX)));
                let parameters: Parameters<'_> =
                    &[&queue.as_str(), &state, &after.at.as_micros(), &after.seq, &limit];
                let rows = session.call(&ENDED, parameters).await?;
                let ended = rows.iter().map(|found| {
                    let place = EndPlace { at: time(at(found, 1)?), seq: at(found, 2)? };
                    Ok(Ended { id: row::job_id(found, 0)?, place })
                });
                ended.collect()
            })
            .await
    }
}
