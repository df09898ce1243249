//! Requests to stop: whether they concern a job that is here, or one that is on its way here.

use std::collections::HashSet;

use windlass_core::JobId;
use windlass_core::bell::Named;

use super::Slots;
use super::buffer::Buffer;
use crate::ctx::Ctx;

/// The most requests that are kept in mind; of more, any job may be meant.
const ASKED_MAX: usize = 1_000;

/// Jobs that were asked to stop and were not here, while a claim was in flight.
#[derive(Debug, Default)]
pub(super) struct Asked {
    ids: HashSet<JobId>,
    /// Any job may be meant.
    is_any: bool,
}

impl Asked {
    pub(super) fn forget(&mut self) {
        self.ids.clear();
        self.is_any = false;
    }
}

impl Slots {
    /// Jobs are asked to stop. Whether one of them is here: then the store has to be asked. One that a claim in flight
    /// may bring is kept in mind.
    pub(crate) fn is_asked_to_stop(&mut self, jobs: &Named<JobId>) -> bool {
        let is_here = match jobs {
            Named::None => return false,
            Named::These(ids) => self.here().any(|ctx| ids.contains(&ctx.id())),
            Named::Any => self.here().next().is_some(),
        };
        if self.is_claiming() {
            match jobs {
                Named::These(ids) if self.asked.ids.len() < ASKED_MAX => self.asked.ids.extend(ids),
                _ => self.asked.is_any = true,
            }
        }
        is_here
    }

    /// Whether one of these jobs, which a claim has just brought, was asked to stop meanwhile.
    pub(crate) fn were_asked_to_stop(&self, jobs: &[Ctx]) -> bool {
        !jobs.is_empty() && (self.asked.is_any || jobs.iter().any(|ctx| self.asked.ids.contains(&ctx.id())))
    }

    /// Everything that runs or waits.
    fn here(&self) -> impl Iterator<Item = &Ctx> {
        self.running().chain(self.buffers.iter().flat_map(Buffer::iter))
    }
}
