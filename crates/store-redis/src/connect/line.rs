//! One connection to one server for one purpose, made when it is needed and again when it broke.
//!
//! One attempt at a time: whoever comes meanwhile waits for it and shares what it comes to. After a failure everyone
//! gets its reason at once for a random while, longer with each failure in a row, so a server that comes back is not
//! run over and nobody waits for one that is away.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use redis::{Cmd, RedisResult, Value};
use tokio::time::Instant;
use windlass_store_server::backoff::pause;

use super::{Connector, Wire};
use crate::error::{Away, Fault, chain};
use crate::options::Target;

/// After a rest the other side may have gone without anybody having looked.
const REST: Duration = Duration::from_millis(10);

/// A request that was given up after so long says that its connection is of no use.
const HUNG: Duration = Duration::from_secs(1);

/// A connection to come.
pub(crate) struct Line {
    pub(crate) target: Target,
    connector: Arc<Connector>,
    state: Mutex<State>,
    /// Held by the one who connects.
    turn: tokio::sync::Mutex<()>,
    /// How many requests went over it.
    #[cfg(test)]
    pub(crate) sent: std::sync::atomic::AtomicU64,
}

#[derive(Default)]
struct State {
    wire: Option<Wire>,
    used: Option<Instant>,
    failures: u32,
    closed: Option<(Instant, Away)>,
}

impl Line {
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
    pub(crate) async fn wire(&self) -> Result<Wire, Away> {
        if let Some(wire) = self.living().await {
            return Ok(wire);
        }
        let _turn = self.turn.lock().await;
        if let Some(wire) = self.living().await {
            return Ok(wire);
        }
        if let Some((until, away)) = &self.state().closed
            && Instant::now() < *until
        {
            return Err(away.clone());
        }
        let made = self.connector.connect(&self.target).await;
        let mut state = self.state();
        match made {
            Ok(wire) => {
                *state = State { wire: Some(wire.clone()), used: Some(Instant::now()), ..State::default() };
                Ok(wire)
            }
            Err(away) => {
                state.failures = state.failures.saturating_add(1);
                state.closed = Some((Instant::now() + pause(state.failures), away.clone()));
                Err(away)
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
            let wire = self.wire().await?;
            // The driver takes the request in the first poll, or fails there: on this runtime of one thread no answer
            // can come between. What fails later may have been sent.
            let mut request = pin!(request(&wire, commands));
            let first = poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await;
            let result = match first {
                Poll::Ready(Err(_)) => {
                    self.retire(wire.number);
                    continue;
                }
                Poll::Ready(Ok(answers)) => Ok(answers),
                Poll::Pending => {
                    has_sent.store(true, Ordering::Relaxed);
                    #[cfg(test)]
                    self.sent.fetch_add(1, Ordering::Relaxed);
                    let watch = Watch { line: self, number: wire.number, began: Instant::now() };
                    let result = request.await;
                    watch.end();
                    result
                }
            };
            return result.map_err(|error| {
                self.retire(wire.number);
                Fault::Lost(chain(&error))
            });
        }
        Err(Away::passing("the connection was closed").into())
    }

    /// Lends this connection to nobody any more. Those who wait for its answers still get them.
    pub(crate) fn retire(&self, number: u64) {
        let mut state = self.state();
        if state.wire.as_ref().is_some_and(|wire| wire.number == number) {
            state.wire = None;
        }
    }

    /// Whatever connection there is, it leads to the wrong place.
    pub(crate) fn retire_any(&self) {
        self.state().wire = None;
    }

    async fn living(&self) -> Option<Wire> {
        let rested = {
            let mut state = self.state();
            state.wire.as_ref()?;
            state.used.replace(Instant::now()).is_none_or(|used| used.elapsed() > REST)
        };
        if rested {
            // Lets the runtime look at the sockets, and then the connection at its own.
            tokio::task::yield_now().await;
        }
        let mut state = self.state();
        if state.wire.as_ref().is_some_and(Wire::is_closed) {
            state.wire = None;
        }
        state.wire.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn request(wire: &Wire, commands: &[&Cmd]) -> RedisResult<Vec<Value>> {
    let mut connection = wire.connection.clone();
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
struct Watch<'l> {
    line: &'l Line,
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
            self.line.retire(self.number);
        }
    }
}
