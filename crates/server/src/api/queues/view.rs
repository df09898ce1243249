//! A queue as it is answered.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Pause, QueueRecord};
use windlass_core::store::LeaseRecord;
use windlass_core::{Name, State};
use windlass_worker::Backlog;

use super::binds::{self, Bind};
use super::definition::Definition;
use crate::app::App;
use crate::problem::Problem;
use crate::wire::Instant;

/// Leases that are read to say who serves a queue.
pub(super) const LEASES_MAX: u32 = 1_000;

/// A queue.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueView {
    /// Its name.
    #[schema(value_type = String)]
    name: Name,
    /// How many jobs are in each state.
    counts: BTreeMap<&'static str, u64>,
    /// What it keeps, permits and hands out.
    definition: Definition,
    /// Its pause, if it is paused.
    paused: Option<PauseView>,
    /// Pauses of single kinds.
    paused_kinds: BTreeMap<String, PauseView>,
    /// Pauses of single keys.
    paused_keys: BTreeMap<String, PauseView>,
    /// Why its definition does not read.
    unreadable: Option<String>,
    /// What waits; not in lists unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    backlog: Option<BacklogView>,
    /// The living workers that serve it; as `backlog`.
    #[serde(skip_serializing_if = "Option::is_none")]
    served_by: Option<Vec<String>>,
    /// What keeps its jobs from starting now; as `backlog`.
    #[serde(skip_serializing_if = "Option::is_none")]
    binds: Option<Vec<Bind>>,
}

/// A pause.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Pause)]
pub(crate) struct PauseView {
    /// Who asked for it.
    pub(super) by: String,
    /// Why.
    pub(super) why: String,
    /// When it ends by itself.
    pub(super) until: Option<Instant>,
}

/// What waits in a queue, as far as its newest jobs tell.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Backlog)]
pub(crate) struct BacklogView {
    /// Since when the job that waits longest could have started.
    oldest_due_at: Option<Instant>,
    /// Whether older ones may wait that were not looked at.
    oldest_has_more: bool,
    /// Scheduled jobs whose time has come.
    overdue: u64,
    /// Whether there may be more of them.
    overdue_has_more: bool,
}

impl PauseView {
    fn of(pause: &Pause) -> Self {
        Self { by: pause.by.clone(), why: pause.why.clone(), until: pause.until.map(Instant) }
    }
}

impl QueueView {
    pub(super) fn of(queue: &QueueRecord) -> Self {
        let pauses = &queue.config.pauses;
        let named = |pauses: &BTreeMap<Name, Pause>| {
            pauses.iter().map(|(name, pause)| (name.to_string(), PauseView::of(pause))).collect()
        };
        Self {
            name: queue.name.clone(),
            counts: State::ALL.into_iter().map(|state| (state.as_str(), queue.counts.of(state))).collect(),
            definition: Definition::of(&queue.config),
            paused: pauses.queue.as_ref().map(PauseView::of),
            paused_kinds: named(&pauses.kinds),
            paused_keys: named(&pauses.keys),
            unreadable: queue.unreadable.clone(),
            backlog: None,
            served_by: None,
            binds: None,
        }
    }

    /// The same with what its counts do not say.
    pub(super) async fn seen(
        app: &App,
        queue: &QueueRecord,
        leases: &[LeaseRecord],
    ) -> Result<Self, Problem> {
        // The store's clock decides what is due; this one is near enough to show it.
        let now = Timestamp::from(SystemTime::now());
        let waits = [State::Ready, State::Scheduled].iter().any(|state| queue.counts.of(*state) > 0);
        let backlog = match waits {
            true => app.client().queue(&queue.name)?.backlog(now).await?,
            false => Backlog::default(),
        };
        let serving = leases.iter().filter(|lease| !lease.is_lost && lease.queues.contains(&queue.name));
        let mut served_by: Vec<String> = serving.map(|lease| lease.worker.clone()).collect();
        served_by.sort_unstable();
        served_by.dedup();
        let binds = binds::of(queue, &backlog, served_by.is_empty(), now);
        let backlog = BacklogView {
            oldest_due_at: backlog.oldest.map(Instant),
            oldest_has_more: backlog.has_more_ready || backlog.has_more_scheduled,
            overdue: backlog.overdue,
            overdue_has_more: backlog.has_more_scheduled,
        };
        Ok(Self { backlog: Some(backlog), served_by: Some(served_by), binds: Some(binds), ..Self::of(queue) })
    }
}
