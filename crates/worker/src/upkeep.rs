//! Keeping a store in order without running jobs: for programs such as the server, whose workers may all be of another kind and
//! have no such loops. Each loop takes its duty, so of a fleet one program still does the work.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::maintenance::{
    self, Duties, FlowKeeper, Promoter, Pruner, Reaper, Redriver, Sweep, Sweeper, Ticker,
};
use crate::shutdown::{Shutdown, Stage};
use crate::supervise::{self, Board};

const REAP: Duration = Duration::from_secs(10);
const PROMOTE: Duration = Duration::from_secs(5);
const PRUNE: Duration = Duration::from_secs(60);
const REDRIVE: Duration = Duration::from_secs(30);

/// The loops of [`Maintenance`](crate::Maintenance), as a worker has them, without a worker. They take back jobs of lost
/// leases, promote and expire, prune, heed the rules for dead jobs, and move flows on. What the engine does as jobs, as the
/// ticks of schedules, is done by workers only.
#[derive(Debug)]
#[must_use = "the loops end when this is dropped"]
pub struct Upkeep {
    stage: watch::Sender<Stage>,
    loops: Vec<JoinHandle<()>>,
}

impl Upkeep {
    /// Starts the loops.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(client: &Client) -> Self {
        let mut upkeep = Self { stage: watch::Sender::new(Stage::Running), loops: Vec::new() };
        let (store, board) = (|| Arc::clone(client.store()), Arc::<Board>::default());
        let duties = Duties::new(store());
        upkeep.sweep(REAP, Reaper::new(store()), &duties, &board);
        upkeep.sweep(PROMOTE, Promoter::new(store()), &duties, &board);
        upkeep.sweep(PRUNE, Pruner::new(store()), &duties, &board);
        upkeep.sweep(REDRIVE, Redriver::new(store()), &duties, &board);
        upkeep.sweep(PRUNE, Ticker::new(client), &duties, &board);
        upkeep.sweep(REAP, FlowKeeper::new(client), &duties, &board);
        upkeep
    }

    fn sweep(&mut self, interval: Duration, sweep: impl Sweep, duties: &Duties, board: &Arc<Board>) {
        let sweeper =
            Sweeper::new(maintenance::Config { interval }, sweep, duties.clone(), Arc::clone(board));
        let (runtime, shutdown) = (runtime::Handle::current(), Shutdown::new(&self.stage));
        self.loops.push(supervise::spawn(&runtime, Arc::clone(board), Arc::new(sweeper), shutdown));
    }

    /// Ends the loops after the rounds that are under way, and leaves their duties to others.
    pub async fn stop(mut self) {
        self.stage.send_replace(Stage::Draining);
        for each in self.loops.drain(..) {
            // A loop that panicked is started again until it ends.
            let _ = each.await;
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.loops.iter().for_each(JoinHandle::abort);
    }
}
