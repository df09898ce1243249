//! What can be seen of the floor: slots whose handler has outlived its attempt, and what they keep from running.

use std::time::{Duration, Instant};

use windlass_core::Name;

use super::Floor;
use crate::slots::Slots;
use crate::supervise::Blocked;
use crate::worker::Config;

impl Floor {
    /// Slots whose attempt has ended and whose handler has not.
    pub(crate) fn zombies(&self) -> usize {
        self.seats.iter().flatten().filter(|sitting| sitting.ctx.is_zombie()).count()
    }

    /// Threads of blocking handlers that have outlived their attempt.
    pub(crate) fn zombie_threads(&self) -> usize {
        self.seats.iter().flatten().filter(|sitting| sitting.ctx.inner().thread.is_zombie()).count()
    }

    /// Queues that can start nothing, however long they wait: every slot that they may use is a zombie's.
    pub(crate) fn starved(&self, config: &Config) -> Vec<Name> {
        if self.zombies() == 0 {
            return Vec::new();
        }
        let mut slots = Slots::new(config);
        for sitting in self.seats.iter().flatten().filter(|sitting| sitting.ctx.is_zombie()) {
            slots.take(sitting.line);
        }
        let lines = self.lines.iter().enumerate().filter(|(line, _)| slots.free(*line) == 0);
        lines.map(|(_, line)| line.queue.clone()).collect()
    }

    /// Whether an async handler has a thread of the runtime at present.
    pub(crate) fn is_held(&self) -> bool {
        let now = Instant::now();
        self.seats.iter().flatten().any(|sitting| sitting.ctx.inner().turn.held(now).is_some())
    }

    /// Async handlers that have held their thread for so long, and those whose attempt ended without them.
    pub(crate) fn blocked(&self, now: Instant, after: Duration) -> Vec<Blocked> {
        let holding = self.seats.iter().flatten().filter_map(|sitting| {
            let (ctx, turn) = (&sitting.ctx, &sitting.ctx.inner().turn);
            let held = turn.held(now).filter(|held| *held >= after || turn.is_left())?;
            Some(Blocked { kind: ctx.kind().clone(), id: ctx.id(), held })
        });
        holding.collect()
    }
}
