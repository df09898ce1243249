//! What an operation sees of the server: one connection for its time.
//!
//! Every [`query`](Session::query) and [`call`](Session::call) is a statement of its own in its own implicit
//! transaction, sent in one round trip, and works through a pooler in transaction mode.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::future::join;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error as DriverError, Row};

use crate::connect::Wire;
use crate::error::{Away, Fault};
use crate::functions::Function;
use crate::statement::Parameters;

/// A connection that is lent to one operation.
///
/// Several queries may be under way at once, as with `futures_util::future::try_join`: they are sent without waiting
/// for each other's answer and take effect in the order in which they were first polled, each by itself.
pub(crate) struct Session {
    wire: Arc<Wire>,
    progress: Arc<Progress>,
}

/// How far the operation of a session has come, for whoever lent the connection.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    has_sent: AtomicBool,
    is_spoiled: AtomicBool,
}

impl Progress {
    /// Whether the server may have got something.
    pub(crate) fn has_sent(&self) -> bool {
        self.has_sent.load(Ordering::Relaxed)
    }

    /// Whether the connection must not be lent again.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.is_spoiled.load(Ordering::Relaxed)
    }

    fn spoil(&self) {
        self.is_spoiled.store(true, Ordering::Relaxed);
    }
}

impl Session {
    pub(crate) fn new(wire: Arc<Wire>) -> (Self, Arc<Progress>) {
        let progress = Arc::new(Progress::default());
        (Self { wire, progress: Arc::clone(&progress) }, progress)
    }

    /// Runs one statement. The types are those of the parameters in the statement; only types that PostgreSQL comes
    /// with are looked up without a further round trip, also in the columns of the answer.
    pub(crate) async fn query(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Fault> {
        self.run(self.wire.client.query_typed(sql, parameters)).await
    }

    /// Calls a function of the store: by name if the server knows one, and else spelled out.
    pub(crate) async fn call(
        &self,
        function: &Function,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        debug_assert_eq!(parameters.len(), function.parameters.len(), "{}", function.name);
        if let Some(statement) = self.wire.named(function) {
            match self.run(self.wire.client.query(&statement, parameters)).await {
                Err(fault) if fault.is_misnamed() => self.wire.forget_names(),
                answer => return answer,
            }
        }
        let typed: Vec<_> = parameters.iter().copied().zip(function.parameters.iter().cloned()).collect();
        let answer = self.query(sql, &typed);
        if !self.wire.may_name(function) {
            return answer.await;
        }
        join(answer, self.wire.name(function, sql)).await.0
    }

    /// Runs a script, for migrations. It must hold its transactions whole; the connection is not used again, so
    /// whatever a failure leaves open ends with it.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.progress.spoil();
        self.run(self.wire.client.batch_execute(sql)).await
    }

    /// The driver encodes and sends in the first poll, or fails there: on this runtime of one thread no answer can
    /// come between. What fails later was sent.
    async fn run<T>(&self, request: impl Future<Output = Result<T, DriverError>>) -> Result<T, Fault> {
        let mut request = pin!(request);
        let first = poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await;
        let result = match first {
            Poll::Ready(Err(error)) if error.is_closed() => {
                self.progress.spoil();
                return Err(Away::passing("the connection was closed").into());
            }
            Poll::Ready(Err(error)) => return Err(Fault::Defect(crate::error::chain(&error))),
            Poll::Ready(Ok(answer)) => Ok(answer),
            Poll::Pending => {
                self.progress.has_sent.store(true, Ordering::Relaxed);
                request.await
            }
        };
        result.map_err(|error| {
            let fault = match error.as_db_error() {
                Some(_) => Fault::Postgres(error),
                None => Fault::Lost(error),
            };
            if fault.spoils() {
                self.progress.spoil();
            }
            fault
        })
    }
}
