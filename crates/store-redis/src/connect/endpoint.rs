//! One connection to one server for one purpose, made when it is needed and again when it broke.
//!
//! One attempt at a time: requests that come meanwhile wait for it and share what it comes to. After a failure every
//! request gets its reason at once for a random while, longer with each failure in a row, so a server that comes back is
//! not run over and no request waits for one that is away.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use redis::{Cmd, RedisResult, Value};
use tokio::time::Instant;
use windlass_store_server::backoff::pause;

use super::{Connection, Connector};
use crate::error::{Fault, Unreachable, chain};
use crate::options::Target;

/// After a rest the other side may have gone unnoticed.
const REST: Duration = Duration::from_millis(10);

/// A request that was given up after so long says that its connection is of no use.
const HUNG: Duration = Duration::from_secs(1);

/// One server, for one purpose.
pub(crate) struct Endpoint {
    pub(crate) target: Target,
    connector: Arc<Connector>,
    state: Mutex<State>,
    /// Held by the request that connects.
    turn: tokio::sync::Mutex<()>,
    /// How many requests went over it.
    #[cfg(test)]
    pub(crate) sent: std::sync::atomic::AtomicU64,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    used: Option<Instant>,
    failures: u32,
    closed: Option<(Instant, Unreachable)>,
}

impl Endpoint {
    pub(super) fn new(target: Target, connector: Arc<Connector>) -> Self {
        Self {
            target,
            connector,
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            #[cfg(test)]
            sent: std::sync::atomic::AtomicU64::default(),
        }
    }

    /// The connection, or why there is none.
    pub(crate) async fn connection(&self) -> Result<Connection, Unreachable> {
        if let Some(connection) = self.living().await {
            return Ok(connection);
        }
        let _turn = self.turn.lock().await;
        if let Some(connection) = self.living().await {
            return Ok(connection);
        }
        if let Some((until, why)) = &self.state().closed
            && Instant::now() < *until
        {
            return Err(why.clone());
        }
        let made = self.connector.connect(&self.target).await;
        let mut state = self.state();
        match made {
            Ok(made) => {
                let (connection, used) = (Some(made.clone()), Some(Instant::now()));
                *state = State { connection, used, ..State::default() };
                Ok(made)
            }
            Err(why) => {
                state.failures = state.failures.saturating_add(1);
                state.closed = Some((Instant::now() + pause(state.failures), why.clone()));
                Err(why)
            }
        }
    }

    /// Sends commands in one piece and waits for their answers, errors of the server among them. What was found to be
    /// closed before anything was sent is made again, once. `has_sent` is set when a server may have got something.
    pub(crate) async fn exchange(
        &self,
        commands: &[&Cmd],
        has_sent: &AtomicBool,
    ) -> Result<Vec<Value>, Fault> {
        for _ in 0..2 {
            let connection = self.connection().await?;
            // The driver takes the request in the first poll, or fails there: on this runtime of one thread no answer
            // can come between. What fails later may have been sent.
            let mut request = pin!(request(&connection, commands));
            let first = poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await;
            let result = match first {
                Poll::Ready(Err(_)) => {
                    self.retire(connection.number);
                    continue;
                }
                Poll::Ready(Ok(answers)) => Ok(answers),
                Poll::Pending => {
                    has_sent.store(true, Ordering::Relaxed);
                    #[cfg(test)]
                    self.sent.fetch_add(1, Ordering::Relaxed);
                    let watch = Watch { endpoint: self, number: connection.number, began: Instant::now() };
                    let result = request.await;
                    watch.end();
                    result
                }
            };
            return result.map_err(|error| {
                self.retire(connection.number);
                Fault::broken(&chain(&error))
            });
        }
        Err(Unreachable::passing("the connection was closed").into())
    }

    /// Sends nothing over this connection any more. Requests that wait for its answers still get them.
    pub(crate) fn retire(&self, number: u64) {
        let mut state = self.state();
        if state.connection.as_ref().is_some_and(|connection| connection.number == number) {
            state.connection = None;
        }
    }

    /// Whatever connection there is, it leads to the wrong place.
    pub(crate) fn retire_any(&self) {
        self.state().connection = None;
    }

    async fn living(&self) -> Option<Connection> {
        let rested = {
            let mut state = self.state();
            state.connection.as_ref()?;
            state.used.replace(Instant::now()).is_none_or(|used| used.elapsed() > REST)
        };
        if rested {
            // Lets the runtime look at the sockets, and then the connection at its own.
            tokio::task::yield_now().await;
        }
        let mut state = self.state();
        if state.connection.as_ref().is_some_and(Connection::is_closed) {
            state.connection = None;
        }
        state.connection.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn request(connection: &Connection, commands: &[&Cmd]) -> RedisResult<Vec<Value>> {
    let mut connection = connection.multiplexed.clone();
    if let [command] = commands {
        return connection.send_packed_command(command).await.map(|answer| vec![answer]);
    }
    let mut pipeline = redis::pipe();
    for command in commands {
        pipeline.add_command((*command).clone());
    }
    connection.send_packed_commands(&pipeline, 0, commands.len()).await
}

/// Watches over a request under way: one that is dropped after a long wait takes its connection out of use.
struct Watch<'e> {
    endpoint: &'e Endpoint,
    number: u64,
    began: Instant,
}

impl Watch<'_> {
    /// There is an answer. However long it took, the connection is not to blame.
    fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.began.elapsed() >= HUNG {
            self.endpoint.retire(self.number);
        }
    }
}
