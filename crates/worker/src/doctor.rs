//! Examining a store: its connection, clock, durability and settings, lost leases, and its queues. What holds for every store is
//! asked through the traits, here; what only one kind of store knows is its [`Checkup`](windlass_core::store::Checkup).

mod queues;
mod rows;
mod store;

use windlass_core::store::{Depth, Finding};

use crate::client::Client;
use crate::error::Result;

impl Client {
    /// Examines the store, what waits in it and who serves it: one finding for each look, with a remedy where one is needed.
    /// A look that fails is a finding, and the others go on. Changes nothing.
    ///
    /// # Errors
    /// The store's, if it does not even tell the time: then it is not examined further.
    pub async fn examine(&self, depth: Depth) -> Result<Vec<Finding>> {
        let (mut findings, now) = store::connection(self).await?;
        findings.push(store::durability(self.about().durability));
        if let Some(checkup) = self.store().checkup() {
            found(&mut findings, "settings", checkup.examine(depth).await.map_err(Into::into));
        }
        let leases = self.workers(store::LEASES_MAX).await.unwrap_or_default();
        found(&mut findings, "leases", store::leases(self, &leases, now).await);
        found(&mut findings, "queues", queues::examine(self, &leases, now).await);
        Ok(findings)
    }
}

fn found(findings: &mut Vec<Finding>, subject: &str, more: Result<Vec<Finding>>) {
    match more {
        Ok(more) => findings.extend(more),
        Err(error) => {
            let what = format!("could not be examined: {error:#}");
            findings.push(Finding::problem(subject, what, "mend what the error says, then examine again"));
        }
    }
}
