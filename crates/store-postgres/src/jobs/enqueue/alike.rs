//! Many jobs that are alike but for their ids, payloads and unique keys, as those of a bulk mostly are: what they share is said
//! once, and the server has less to look at (`accept_alike` in `migrations/0010_alike.sql`).

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Columns, HELD};

/// From how many jobs on it pays.
const JOBS_MIN: usize = 10;

/// The parameters of `jobs/enqueue_alike.sql`.
pub(super) struct Alike<'a> {
    columns: &'a Columns<'a>,
    keys: Vec<Uuid>,
    lifetime: Option<&'a str>,
    priority: i64,
    delay: Option<i64>,
    spec: Option<&'a str>,
    tags: Option<&'a str>,
}

impl<'a> Alike<'a> {
    /// Nothing where they are not alike, or few; or held, which `accept` alone knows of.
    pub(super) fn of(columns: &'a Columns<'a>) -> Option<Self> {
        let Columns {
            ids,
            places,
            queues,
            kinds,
            payloads: _,
            priorities,
            delays,
            times,
            expiries,
            specs,
            tags,
            fits,
            keys,
            lines,
            have_capacity,
        } = columns;
        let are_alike = ids.len() >= JOBS_MIN
            && !have_capacity
            && (queues.len(), kinds.len()) == (1, 1)
            && places.is_empty()
            && times.is_empty()
            && expiries.is_empty()
            && fits.is_empty()
            && lines.is_empty()
            && !delays.contains(&Some(HELD))
            && keys.conflicts.is_empty()
            && are_same(priorities)
            && are_same(delays)
            && are_same(specs)
            && are_same(tags)
            && are_same(&keys.lifetimes);
        are_alike.then_some(())?;
        Some(Self {
            columns,
            keys: keys.digests.iter().copied().collect::<Option<_>>()?,
            lifetime: keys.lifetimes.first().and_then(Option::as_deref),
            priority: priorities.first().copied().unwrap_or(0),
            delay: delays.first().copied().flatten(),
            spec: specs.first().and_then(Option::as_deref),
            tags: tags.first().and_then(Option::as_deref),
        })
    }

    pub(super) fn values<'v>(&'v self, version: &'v i64, call: &'v Uuid) -> [&'v (dyn ToSql + Sync); 12] {
        let Self { columns, keys, lifetime, priority, delay, spec, tags } = self;
        let Columns { ids, queues, kinds, payloads, .. } = columns;
        [version, ids, &queues[0], &kinds[0], payloads, priority, delay, spec, tags, call, keys, lifetime]
    }
}

fn are_same<T: PartialEq>(column: &[T]) -> bool {
    column.windows(2).all(|pair| pair[0] == pair[1])
}
