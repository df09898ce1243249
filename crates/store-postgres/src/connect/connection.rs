//! A connection, what drives it, and the statements that the server knows by name on it.
//!
//! To read and plan a call is about a quarter of what the server has to do for one job, so calls that are frequent
//! are kept under a name. That holds only as long as the same session stands behind the connection: a pooler may put
//! another there for each transaction. A connection is known to be its own session by a mark that it sends with its
//! settings and finds again in the session; where it does not, every call is spelled out.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::{Client, Error as DriverError, Statement};

use crate::error::is_refusal;
use crate::functions::Function;

/// How long a new connection may think about whose session it has.
const MARK_WAIT: Duration = Duration::from_secs(1);

/// A connection and what drives it.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(super) driver: AbortHandle,
    /// Statements that the server knows by name; `None` once a name may not lead to what it was given to.
    names: Mutex<Option<Names>>,
}

/// By function; `None` where the server refused to prepare it.
type Names = HashMap<&'static str, Option<Statement>>;

/// What the session behind a connection is told from others by.
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn new() -> Self {
        Self(format!("{:016x}", fastrand::u64(..)))
    }

    /// As one of the settings of a new connection.
    pub(super) fn setting(&self) -> String {
        format!(" -c windlass.mark={}", self.0)
    }

    /// Whether the session behind the connection was begun by it. A connection that does not answer soon may still do
    /// its work, as far as is known: not being sure is a no.
    pub(super) async fn is_on(&self, client: &Client) -> Result<bool, DriverError> {
        const ASK: &str = "SELECT current_setting('windlass.mark', true)";
        match timeout(MARK_WAIT, client.query_typed(ASK, &[])).await {
            Ok(Ok(rows)) => {
                Ok(rows.first().is_some_and(|row| row.try_get(0).is_ok_and(|found: &str| found == self.0)))
            }
            Ok(Err(error)) if !is_refusal(&error) => Err(error),
            Ok(Err(_)) | Err(_) => Ok(false),
        }
    }
}

impl Connection {
    /// Calls can have names if the session behind the connection is its own.
    pub(super) fn new(client: Client, driver: AbortHandle, is_own_session: bool) -> Self {
        Self { client, driver, names: Mutex::new(is_own_session.then(Names::new)) }
    }

    /// The function under its name, if it has one.
    pub(crate) fn named(&self, function: &Function) -> Option<Statement> {
        self.names().as_ref()?.get(function.name).cloned().flatten()
    }

    /// Whether the server could be told a name for the function.
    pub(crate) fn may_name(&self, function: &Function) -> bool {
        function.is_frequent()
            && self.names().as_ref().is_some_and(|names| !names.contains_key(function.name))
    }

    /// Tells the server a name for the call of a function.
    pub(crate) async fn name(&self, function: &Function, call: &str) {
        let statement = self.client.prepare_typed(call, function.parameters).await.ok();
        if let Some(names) = self.names().as_mut() {
            names.insert(function.name, statement);
        }
    }

    /// Names do not lead where they should.
    pub(crate) fn forget_names(&self) {
        *self.names() = None;
    }

    fn names(&self) -> MutexGuard<'_, Option<Names>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
