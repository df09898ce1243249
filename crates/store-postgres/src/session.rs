//! What an operation sees of the server: one connection for its time.
//!
//! Every [`query`](Session::query) and [`call`](Session::call) is a statement of its own in its own implicit
//! transaction, sent in one round trip, and works through a pooler in transaction mode.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use deadpool::managed::Object;
use futures_util::future::join;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error as DriverError, Row};

use crate::PostgresOptions;
use crate::connect::{Connection, Lender, Pools};
use crate::error::{Fault, Unreachable, chain, is_misnamed, sent_fault, spoils};
use crate::functions::Function;

/// Parameters of a statement, in order.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection that is lent to one operation.
///
/// Several queries may be under way at once, as with `futures_util::future::try_join`: they are sent without waiting
/// for each other's answer and take effect in the order in which they were first polled, each by itself.
#[derive(Clone)]
pub(crate) struct Session(Arc<Loan>);

/// A connection on loan. If it is not given back (a deadline passed, the operation panicked) it is not known what it is
/// doing, so it is cancelled and closed.
struct Loan {
    pools: Arc<Pools>,
    connection: Arc<Connection>,
    /// Until it is given back.
    object: Mutex<Option<Object<Lender>>>,
    /// The server may have got something.
    has_sent: AtomicBool,
    /// The connection must not be lent again.
    is_spoiled: AtomicBool,
}

impl windlass_store_server::remote::Session for Session {
    fn has_sent(&self) -> bool {
        self.0.has_sent.load(Ordering::Relaxed)
    }

    fn ended(self) {
        let object = self.0.object.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.0.is_spoiled.load(Ordering::Relaxed) {
            // Dropping the client says goodbye to the server, which rolls back what is open.
            drop(object.map(Object::take));
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(object) = self.object.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let (connection, connector) = (Object::take(object), Arc::clone(&self.pools.connector));
            self.pools.runtime.spawn(async move { connector.abandon(&connection).await });
        }
    }
}

impl Session {
    pub(crate) fn new(object: Object<Lender>, pools: &Arc<Pools>) -> Self {
        Self(Arc::new(Loan {
            pools: Arc::clone(pools),
            connection: Arc::clone(&object),
            object: Mutex::new(Some(object)),
            has_sent: AtomicBool::new(false),
            is_spoiled: AtomicBool::new(false),
        }))
    }

    /// The options of the store.
    pub(crate) fn options(&self) -> &PostgresOptions {
        &self.0.pools.options
    }

    /// Runs one statement. The types are those of the parameters in the statement; only types that PostgreSQL comes
    /// with are looked up without a further round trip, also in the columns of the answer.
    pub(crate) async fn query(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Fault> {
        self.run(self.0.connection.client.query_typed(sql, parameters)).await
    }

    /// Calls a function of the store: by name if the server knows one, and else spelled out.
    pub(crate) async fn call(
        &self,
        function: &Function,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        debug_assert_eq!(parameters.len(), function.parameters.len(), "{}", function.name);
        let connection = &self.0.connection;
        if let Some(statement) = connection.named(function) {
            match self.run(connection.client.query(&statement, parameters)).await {
                Err(fault) if is_misnamed(&fault) => connection.forget_names(),
                answer => return answer,
            }
        }
        let typed: Vec<_> = parameters.iter().copied().zip(function.parameters.iter().cloned()).collect();
        let sql = self.0.pools.statements.of(function);
        let answer = self.query(sql, &typed);
        if !connection.may_name(function) {
            return answer.await;
        }
        join(answer, connection.name(function, sql)).await.0
    }

    /// Calls a function that answers exactly one row.
    pub(crate) async fn call_one(
        &self,
        function: &Function,
        parameters: Parameters<'_>,
    ) -> Result<Row, Fault> {
        let rows = self.call(function, parameters).await?;
        rows.into_iter().next().ok_or_else(|| Fault::Corrupt(format!("{} gave no row", function.name)))
    }

    /// Runs a script, for migrations. It must hold its transactions whole; the connection is not used again, so
    /// whatever a failure leaves open ends with it.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.spoil();
        self.run(self.0.connection.client.batch_execute(sql)).await
    }

    /// The driver encodes and sends in the first poll, or fails there: on this runtime of one thread no answer can
    /// come between. What fails later was sent.
    async fn run<T>(&self, request: impl Future<Output = Result<T, DriverError>>) -> Result<T, Fault> {
        let mut request = pin!(request);
        let first = poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await;
        let result = match first {
            Poll::Ready(Err(error)) if error.is_closed() => {
                self.spoil();
                return Err(Unreachable::passing("the connection was closed").into());
            }
            Poll::Ready(Err(error)) => return Err(Fault::Defect(chain(&error))),
            Poll::Ready(Ok(answer)) => Ok(answer),
            Poll::Pending => {
                self.0.has_sent.store(true, Ordering::Relaxed);
                request.await
            }
        };
        result.map_err(|error| {
            let fault = sent_fault(&error);
            if spoils(&fault) {
                self.spoil();
            }
            fault
        })
    }

    fn spoil(&self) {
        self.0.is_spoiled.store(true, Ordering::Relaxed);
    }
}
