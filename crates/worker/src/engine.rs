//! A running worker: starts its parts, stops them, and reads their health. What each part does is its own.
//!
//! ```text
//!  client ◀── fetcher ──▶ attempts (slots, executor) ──▶ settler      on the worker's runtime
//!                 │            ▲            ▲
//!            reconciler   lease keeper   watchdog                     on the lease thread
//!
//!  beginner, reaper, promoter, pruner, redriver, ticker               on the worker's runtime
//! ```

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::attempts::Attempts;
use crate::begin::{self, Beginner, Begins};
use crate::client::Client;
use crate::error::{ConfigError, Result};
use crate::executor::Executor;
use crate::fetcher::Fetcher;
use crate::health::{Health, LeaseHealth, QueueHealth};
use crate::lag::Lag;
use crate::lease::{self, Keeper, Lease};
use crate::maintenance::{
    Duties, FlowKeeper, Maintenance, Promoter, Pruner, Reaper, Redriver, Sweeper, Ticker, WorkerReaper,
};
use crate::reconcile::Reconciler;
use crate::settler::Settler;
use crate::shutdown::{self, Running, Shutdown, Stage};
use crate::supervise::{self, Background, Board};
use crate::watchdog::{self, Watchdog};
use crate::worker::Config;

/// A running worker.
pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) runtime: Handle,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) lag: Arc<Lag>,
    /// Whether everything has ended, the lease last.
    pub(crate) ended: watch::Sender<bool>,
    /// What moves flows on whose jobs end here.
    pub(crate) client: Client,
    reconciler: Arc<Reconciler>,
    board: Arc<Board>,
    stage: watch::Sender<Stage>,
}

impl Engine {
    /// Starts all parts.
    pub(crate) fn start(client: Client, config: Config, executor: Executor) -> Result<Running> {
        let runtime = Handle::try_current().map_err(|_none| ConfigError::NoRuntime)?;
        let engine = Arc::new(Self::new(&client, config, executor, runtime));
        client.observe().watch(&engine);
        let lease = engine.start_lease(&client);
        let mut loops = engine.start_loops(&client);
        loops.extend(engine.start_declarations(&client));
        Ok(shutdown::spawn(engine, loops, lease))
    }

    fn new(client: &Client, config: Config, executor: Executor, runtime: Handle) -> Self {
        let (board, lease, store) = (Arc::<Board>::default(), Arc::<Lease>::default(), client.store());
        let settler = Settler::new(
            Arc::clone(store),
            Arc::clone(&board),
            Arc::clone(&lease),
            runtime.clone(),
            (config.backoff.clone(), client.observe().clone()),
        );
        let settler = Arc::new(settler);
        let begins = Begins::new(client.clone(), Arc::clone(&board));
        let attempts =
            Attempts::new(config.slots.clone(), executor, Arc::clone(&settler), begins, runtime.clone());
        let attempts = Arc::new(attempts);
        let reconciler = Reconciler::new(client, Arc::clone(&lease), Arc::clone(&attempts));
        Self {
            config,
            runtime,
            attempts,
            settler,
            lease,
            lag: Arc::new(Lag::new(Instant::now())),
            ended: watch::Sender::new(false),
            client: client.clone(),
            reconciler: Arc::new(reconciler),
            board,
            stage: watch::Sender::new(Stage::Running),
        }
    }

    /// Starts the lease thread. What comes back is answered when it has ended.
    fn start_lease(&self, client: &Client) -> oneshot::Receiver<()> {
        let (keeper, watchdog) = (self.keeper(client), self.watchdog(client));
        lease::spawn(Arc::new(keeper), Arc::new(watchdog), Arc::clone(&self.board), self.ended.clone())
    }

    /// Starts the parts of the worker's runtime.
    fn start_loops(&self, client: &Client) -> Vec<JoinHandle<()>> {
        let (config, store, board) =
            (&self.config, || Arc::clone(client.store()), || Arc::clone(&self.board));
        let beginner =
            Beginner::new(begin::Config::default(), Arc::clone(&self.attempts), Arc::clone(&self.board));
        let mut loops = vec![self.supervised(self.fetcher(client)), self.supervised(beginner)];
        if config.maintenance == Maintenance::On {
            let (lease, attempts) = (Arc::clone(&self.lease), Arc::clone(&self.attempts));
            let duties = Duties::new(store());
            let reaper = WorkerReaper { reaper: Reaper::of(client), lease, attempts };
            let (promoter, pruner) = (Promoter::new(store()), Pruner::new(store()));
            loops.push(self.supervised(Sweeper::new(config.reaper, reaper, duties.clone(), board())));
            loops.push(self.supervised(Sweeper::new(config.promoter, promoter, duties.clone(), board())));
            loops.push(self.supervised(Sweeper::new(config.pruner, pruner, duties.clone(), board())));
            let (redriver, ticker) = (Redriver::new(store()), Ticker::new(client));
            loops.push(self.supervised(Sweeper::new(config.redriver, redriver, duties.clone(), board())));
            loops.push(self.supervised(Sweeper::new(config.pruner, ticker, duties.clone(), board())));
            let keeper = FlowKeeper::new(client);
            loops.push(self.supervised(Sweeper::new(config.reaper, keeper, duties, board())));
        }
        loops
    }

    /// Sets the schedules that the worker declares, in the background: it starts also while the store is away.
    fn start_declarations(&self, client: &Client) -> Option<JoinHandle<()>> {
        let declared = self.config.declarations.clone();
        let shutdown = Shutdown::new(&self.stage);
        (!declared.is_empty()).then(|| self.runtime.spawn(declared.run(client.clone(), shutdown)))
    }

    fn fetcher(&self, client: &Client) -> Fetcher {
        Fetcher::new(
            self.config.fetcher.clone(),
            client.clone(),
            Arc::clone(&self.attempts),
            Arc::clone(&self.lease),
            Arc::clone(&self.reconciler),
            (Arc::clone(&self.board), Arc::clone(&self.lag)),
        )
    }

    fn keeper(&self, client: &Client) -> Keeper {
        Keeper::new(
            self.config.lease.clone(),
            Arc::clone(client.store()),
            Arc::clone(&self.lease),
            Arc::clone(&self.attempts),
            (Arc::clone(&self.board), client.observe().clone()),
        )
    }

    fn watchdog(&self, client: &Client) -> Watchdog {
        let config = watchdog::Config {
            cancel_grace: self.config.cancel_grace,
            drain_deadline: self.config.drain_deadline,
            blocked_after: self.config.blocked_after(),
        };
        Watchdog::new(
            config,
            Arc::clone(client.store()),
            Arc::clone(&self.attempts),
            Arc::clone(&self.lease),
            Arc::clone(&self.lag),
            Shutdown::new(&self.stage),
        )
    }

    fn supervised(&self, part: impl Background) -> JoinHandle<()> {
        let shutdown = Shutdown::new(&self.stage);
        supervise::spawn(&self.runtime, Arc::clone(&self.board), Arc::new(part), shutdown)
    }

    /// Moves on towards the end; never back.
    pub(crate) fn advance(&self, stage: Stage) {
        self.stage.send_if_modified(|now| {
            let is_later = stage > *now;
            *now = stage.max(*now);
            is_later
        });
    }

    /// How far the worker has come in ending.
    pub(crate) fn stage(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    pub(crate) fn health(&self) -> Health {
        let (slots, now) = (self.attempts.slots(), Instant::now());
        Health {
            loops: self.board.read(),
            lease: LeaseHealth { id: slots.lease(), lost: self.lease.lost() },
            slots: slots.concurrency(),
            running: slots.running().count(),
            zombies: slots.zombies(),
            blocked: slots.blocked(now, self.config.blocked_after()),
            starved: slots.starved(),
            threads_free: self.config.blocking_threads.saturating_sub(slots.zombie_threads()),
            buffered: slots.waiting(),
            unsettled: self.settler.unsettled(),
            fenced: self.settler.fenced(),
            sick: slots.sick().into_iter().map(|(queue, error)| QueueHealth { queue, error }).collect(),
            unreadable: self.reconciler.unreadable(),
            lag: self.lag.last(now),
            lag_max: self.lag.max(),
        }
    }
}

#[cfg(feature = "metrics")]
impl crate::metrics::Watched for Engine {
    fn gauges(&self) -> Option<crate::metrics::WorkerGauges> {
        if *self.ended.borrow() {
            return None;
        }
        let (health, ttl) = (self.health(), self.config.lease.ttl);
        let queues = self.attempts.slots().per_queue();
        Some(crate::metrics::WorkerGauges {
            queues: queues
                .into_iter()
                .map(|(queue, running, slots)| crate::metrics::QueueGauges { queue, running, slots })
                .collect(),
            buffered: health.buffered,
            unsettled: health.unsettled,
            runtime_lag: health.lag,
            renew_lag: self.lease.renew_lag(ttl),
            lease_ttl: ttl,
            leases_lost: health.lease.lost,
            is_ok: health.is_ok(),
        })
    }
}

#[cfg(test)]
mod tests;
