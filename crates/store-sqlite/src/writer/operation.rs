//! One call on its way through the writer: what to run, and where the answer goes.

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use windlass_core::StoreError;
use windlass_core::store::StoreResult;

use super::Lane;
use crate::error::Fault;
use crate::session::Session;

/// An operation without its types.
pub(crate) trait Operation: Send {
    /// How it is treated.
    fn lane(&self) -> Lane;

    /// Runs it and keeps the result. A refusal is a result; an error means that the transaction must be
    /// rolled back.
    fn run(&mut self, session: &Session<'_>) -> Result<(), Fault>;

    /// The transaction took effect: hands out the result of the last run.
    fn answer(self: Box<Self>);

    /// The transaction did not take effect, or that is not known.
    fn fail(self: Box<Self>, error: StoreError);
}

/// An operation and its caller.
pub(crate) struct Pending<T, F> {
    pub(crate) lane: Lane,
    pub(crate) run: F,
    /// None until it has run.
    pub(crate) result: Option<StoreResult<T>>,
    pub(crate) caller: oneshot::Sender<StoreResult<T>>,
    /// Its place among those that wait, free again when it has been answered.
    pub(crate) _place: OwnedSemaphorePermit,
}

impl<T, F> Operation for Pending<T, F>
where
    T: Send,
    F: FnMut(&Session<'_>) -> Result<T, Fault> + Send,
{
    fn lane(&self) -> Lane {
        self.lane
    }

    fn run(&mut self, session: &Session<'_>) -> Result<(), Fault> {
        self.result = Some(match (self.run)(session) {
            Ok(value) => Ok(value),
            Err(Fault::Refused(refusal)) => Err(refusal),
            Err(fault) => return Err(fault),
        });
        Ok(())
    }

    fn answer(self: Box<Self>) {
        let result = self.result.expect("an operation is answered only after it ran");
        // The caller may have gone away; what it asked for is done all the same.
        let _ = self.caller.send(result);
    }

    fn fail(self: Box<Self>, error: StoreError) {
        let _ = self.caller.send(Err(error));
    }
}
