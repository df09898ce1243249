//! Writes what running attempts say of themselves: progress and log lines, of all attempts together, a few times a second at
//! most, however much is said.
//!
//! The first saying after a pause goes out at once. What is said after that waits until [`INTERVAL`] has passed, except for
//! attempts that wait for it because they end: those go out as soon as the write before is answered. Queues that do not share
//! calls are written for one by one, so a sick one holds up only itself.

mod sayings;

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass_core::batch::ITEMS_MAX;
use windlass_core::store::{AttemptWrite, AttemptWritten, Progress, Settled, Sharing};
use windlass_core::{Name, Store, StoreError};

use self::sayings::{Ended, Taken};
pub(crate) use self::sayings::{Sayings, Standing};
use super::lane::{Answer, Reports, Writes};
use crate::ctx::Ctx;
use crate::lanes::{Flush, Origin};

/// How far apart writes are. Each is one call for reports and one for lines, so about eight calls a second.
const INTERVAL: Duration = Duration::from_millis(250);
/// The longest pause while writes fail.
const INTERVAL_MAX: Duration = Duration::from_secs(5);
/// The most bytes of one write; what is over waits for the next.
const BYTES_MAX: usize = 1 << 20;

/// Gathers what attempts say, and writes it.
pub(crate) struct Reporter {
    sharing: Sharing,
    runtime: Handle,
    reports: Arc<Reports>,
    writes: Arc<Writes>,
    /// By queue, or all under no name where queues share calls. A loop runs for each that is there.
    waiting: Mutex<HashMap<Option<Name>, Waiting>>,
}

/// Attempts that have something to say.
#[derive(Default)]
struct Waiting {
    attempts: VecDeque<Ctx>,
    /// Those that wait for the write.
    urgent: VecDeque<Ctx>,
    wake: Arc<Notify>,
}

/// Which attempts a write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    All,
    Urgent,
}

/// One attempt of a write.
struct Item {
    ctx: Ctx,
    has_progress: bool,
    has_lines: bool,
}

impl Reporter {
    pub(super) fn new(store: &Arc<dyn Store>, runtime: Handle) -> Self {
        let (reports, writes) = (Arc::new(Reports(Arc::clone(store))), Arc::new(Writes(Arc::clone(store))));
        Self { sharing: store.about().sharing, runtime, reports, writes, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Option<Name>, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt has something to say.
    pub(crate) fn tell(self: &Arc<Self>, ctx: &Ctx) {
        self.add(ctx, |waiting| waiting.attempts.push_back(ctx.clone()));
    }

    /// An attempt waits until what it said is written.
    pub(crate) fn urge(self: &Arc<Self>, ctx: &Ctx) {
        self.add(ctx, |waiting| {
            waiting.urgent.push_back(ctx.clone());
            waiting.wake.notify_one();
        });
    }

    fn add(self: &Arc<Self>, ctx: &Ctx, add: impl FnOnce(&mut Waiting)) {
        let queue = (self.sharing == Sharing::Queue).then(|| ctx.queue().clone());
        let mut all = self.waiting();
        let is_new = !all.contains_key(&queue);
        let waiting = all.entry(queue.clone()).or_default();
        add(waiting);
        if is_new {
            let (this, wake) = (Arc::clone(self), Arc::clone(&waiting.wake));
            self.runtime.spawn(async move {
                // What panics is what the program hears of: it must not end the loop.
                while AssertUnwindSafe(this.run(&queue, &wake)).catch_unwind().await.is_err() {
                    tokio::time::sleep(INTERVAL).await;
                }
            });
        }
    }

    /// Writes until nothing is left to say for an interval.
    async fn run(self: &Arc<Self>, queue: &Option<Name>, wake: &Notify) {
        let (mut turn, mut pause) = (Turn::All, INTERVAL);
        let mut due = Instant::now();
        loop {
            let items = self.take(queue, turn);
            if items.is_empty() && turn == Turn::All && self.is_over(queue) {
                return;
            }
            let began = Instant::now();
            if !items.is_empty() {
                let is_well = self.write(items).await;
                pause = if is_well { INTERVAL } else { (pause * 2).min(INTERVAL_MAX) };
            }
            if turn == Turn::All {
                due = began + pause;
            }
            turn = tokio::select! {
                () = sleep_until(due) => Turn::All,
                () = wake.notified() => Turn::Urgent,
            };
        }
    }

    /// Whether no attempt has anything to say; then the loop has ended.
    fn is_over(&self, queue: &Option<Name>) -> bool {
        let mut all = self.waiting();
        let is_empty = |waiting: &Waiting| waiting.attempts.is_empty() && waiting.urgent.is_empty();
        let is_over = all.get(queue).is_none_or(is_empty);
        if is_over {
            all.remove(queue);
        }
        is_over
    }

    /// Takes what the next write brings, up to a bound.
    fn take(&self, queue: &Option<Name>, turn: Turn) -> Vec<(Item, Taken)> {
        let (urgent, others) = {
            let mut all = self.waiting();
            let Some(waiting) = all.get_mut(queue) else { return Vec::new() };
            let others = if turn == Turn::All { mem::take(&mut waiting.attempts) } else { VecDeque::new() };
            (mem::take(&mut waiting.urgent), others)
        };
        let (mut items, mut bytes) = (Vec::new(), 0);
        let (mut urgent_left, mut others_left) = (VecDeque::new(), VecDeque::new());
        let all = urgent.into_iter().map(|ctx| (ctx, true)).chain(others.into_iter().map(|ctx| (ctx, false)));
        for (ctx, is_urgent) in all {
            if items.len() >= ITEMS_MAX || bytes >= BYTES_MAX {
                if is_urgent {
                    urgent_left.push_back(ctx);
                } else {
                    others_left.push_back(ctx);
                }
                continue;
            }
            let Some(said) = ctx.said() else { continue };
            let taken = said.take(&ctx, is_urgent);
            let (has_progress, has_lines) = (taken.progress.is_some(), taken.lines.is_some());
            bytes += taken.progress.as_ref().map_or(0, |report| report.progress.len());
            bytes += taken.lines.as_ref().map_or(0, |write| write.then.weight());
            if has_progress || has_lines {
                items.push((Item { ctx, has_progress, has_lines }, taken));
            } else if said.waits_on(&ctx) {
                others_left.push_back(ctx);
            }
        }
        self.put_back(queue, urgent_left, others_left);
        items
    }

    fn put_back(&self, queue: &Option<Name>, urgent: VecDeque<Ctx>, others: VecDeque<Ctx>) {
        if urgent.is_empty() && others.is_empty() {
            return;
        }
        let mut all = self.waiting();
        let waiting = all.entry(queue.clone()).or_default();
        if !urgent.is_empty() {
            waiting.wake.notify_one();
        }
        waiting.urgent.extend(urgent);
        waiting.attempts.extend(others);
    }

    /// Writes, and notes what became of it. Answers whether all was answered.
    async fn write(self: &Arc<Self>, taken: Vec<(Item, Taken)>) -> bool {
        let (mut items, mut reports, mut writes) = (Vec::with_capacity(taken.len()), Vec::new(), Vec::new());
        for (item, Taken { progress, lines }) in taken {
            items.push(item);
            reports.extend(progress);
            writes.extend(lines);
        }
        let (reported, written) = tokio::join!(self.report(reports), self.write_lines(writes));
        let (mut reported, mut written) = (reported.into_iter(), written.into_iter());
        let mut trouble = None;
        for Item { ctx, has_progress, has_lines } in items {
            let progress = if has_progress { reported.next().map(ended_report) } else { None };
            let lines = if has_lines { written.next().map(ended_write) } else { None };
            for ended in progress.iter().chain(&lines) {
                if let Ended::Failed(error) | Ended::Refused(error) = ended {
                    trouble = Some((Arc::clone(error), matches!(ended, Ended::Failed(_))));
                }
            }
            let is_left = ctx.said().is_some_and(|said| said.ended(&ctx, progress, lines));
            if is_left {
                self.tell(&ctx);
            }
        }
        // Said when all is noted, for the program's subscriber may panic.
        match &trouble {
            Some((error, true)) => tracing::debug!(%error, "what attempts said could not be written"),
            Some((error, false)) => tracing::warn!(%error, "what an attempt said was refused"),
            None => {}
        }
        !matches!(trouble, Some((_, true)))
    }

    async fn report(&self, reports: Vec<Progress>) -> Vec<Answer<Settled>> {
        match reports.is_empty() {
            true => Vec::new(),
            false => self.reports.flush(Origin::Queue, reports).await,
        }
    }

    async fn write_lines(&self, writes: Vec<AttemptWrite>) -> Vec<Answer<AttemptWritten>> {
        match writes.is_empty() {
            true => Vec::new(),
            false => self.writes.flush(Origin::Queue, writes).await,
        }
    }
}

fn ended_report(answer: Answer<Settled>) -> Ended {
    match answer {
        Ok(Settled::Applied(_)) => Ended::Written,
        Ok(Settled::Fenced) => Ended::Fenced,
        Ok(Settled::Refused(error)) => {
            Ended::Refused(Arc::new(StoreError::Internal { what: error.to_string(), source: None }))
        }
        Err(error) => Ended::Failed(Arc::new(error)),
    }
}

fn ended_write(answer: Answer<AttemptWritten>) -> Ended {
    match answer {
        Ok(AttemptWritten::Applied(_)) => Ended::Written,
        Ok(AttemptWritten::Fenced) => Ended::Fenced,
        Ok(AttemptWritten::Refused(error)) => Ended::Refused(Arc::new(error)),
        Err(error) => Ended::Failed(Arc::new(error)),
    }
}
