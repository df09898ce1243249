//! Removes entries of an index whose jobs are no longer dead: some are looked at in each round, from where the last one ended,
//! and more where many are stale.

use windlass_core::follow_ups::{FollowUps, RECORDS_MAX};
use windlass_core::record::{RecordKey, RecordWrite};
use windlass_core::store::{Records, StoreResult};
use windlass_core::{CallId, JobId, Name, State, Store};

use crate::dead::{ENTRIES, entry_id, place_key};

/// Entries that one step looks at, and steps of one round.
const STEP: u32 = 500;
const STEPS_MAX: u32 = 20;

pub(super) async fn remove(
    store: &dyn Store,
    records: &dyn Records,
    home: &Name,
    queue: &Name,
) -> StoreResult<()> {
    let key = place_key(&format!("stale/{queue}"))?;
    let found = records.read(home, [key.clone()].into()).await?.pop().flatten();
    let begin = found.and_then(|found| serde_json::from_slice::<RecordKey>(&found.value).ok());
    let mut after = begin.clone();
    for _ in 0..STEPS_MAX {
        let page = records.list(queue, ENTRIES, after.as_ref(), STEP).await?;
        let entries: Vec<(RecordKey, JobId)> = page
            .records
            .into_iter()
            .filter_map(|record| Some((record.key.clone(), entry_id(&record.key)?)))
            .collect();
        let states = store.states(entries.iter().map(|(_, id)| *id).collect()).await?;
        let stale: Vec<RecordWrite> = entries
            .iter()
            .zip(states)
            .filter(|(_, state)| *state != Some(State::Dead))
            .map(|((key, _), _)| RecordWrite::remove(key.clone()))
            .collect();
        for some in stale.chunks(RECORDS_MAX) {
            let what = FollowUps { jobs: Vec::new(), records: some.to_vec() };
            records.write(CallId::new(), queue, what).await?;
        }
        after = page.next;
        if after.is_none() || stale.len() * 10 < entries.len() {
            break;
        }
    }
    if after != begin {
        let write = match &after {
            Some(after) => RecordWrite::put(key, serde_json::to_vec(after).expect("a key is JSON")),
            None => RecordWrite::remove(key),
        };
        let what = FollowUps { jobs: Vec::new(), records: vec![write] };
        records.write(CallId::new(), home, what).await?;
    }
    Ok(())
}
