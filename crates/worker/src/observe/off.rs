//! Nothing is recorded.

use std::future::Future;
use std::sync::Arc;

use windlass_core::job::LostJob;
use windlass_core::judge::Transition;
use windlass_core::store::{Enqueued, Settlement, StoreResult};
use windlass_core::{ClaimedJob, Name, NewJob, State};

use super::Call;
use crate::ctx::Ctx;
use crate::engine::Engine;
use crate::error::Result;

#[derive(Debug, Clone, Default)]
pub(crate) struct Observe(());

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ended(());

#[derive(Debug, Clone, Default)]
pub(crate) struct Observed(());

impl Observe {
    pub(crate) const fn is_on(&self) -> bool {
        false
    }

    pub(crate) fn watch(&self, _worker: &Arc<Engine>) {}

    pub(crate) fn of(&self, _job: &ClaimedJob, _last: &mut Observed) -> Observed {
        Observed(())
    }

    pub(crate) async fn call<T>(
        &self,
        _call: Call,
        calls: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        calls.await
    }

    pub(crate) async fn enqueue_one(
        &self,
        _queue: &Name,
        _kind: &Name,
        call: impl Future<Output = Result<Enqueued>>,
    ) -> Result<Enqueued> {
        call.await
    }

    pub(crate) async fn enqueue_all(
        &self,
        _jobs: &[NewJob],
        call: impl Future<Output = Result<Vec<Enqueued>>>,
    ) -> Result<Vec<Enqueued>> {
        call.await
    }

    pub(crate) fn given_back(&self, _job: &LostJob, _told: &Transition, _state: State) {}

    pub(crate) fn reaped(&self, _job: &LostJob, _told: &Settlement, _state: State) {}

    pub(crate) fn fenced(&self, _cause: &'static str) {}
}

impl Observed {
    pub(crate) const fn ended(&self) -> Ended {
        Ended(())
    }

    pub(crate) fn started(&self) {}

    pub(crate) fn settled(&self, _ctx: &Ctx, _told: &Transition, _state: State, _ended: Ended) {}

    pub(crate) fn completed(&self, _ctx: &Ctx, _ended: Ended) {}
}
