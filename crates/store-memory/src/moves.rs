//! How a job changes its state: the only code that does it.
//!
//! A job comes in by [`Table::enter`], changes by [`Table::change`] and goes by [`Table::remove`]. All three tell
//! [`moved`] which job went from which state to which, and why. So orders, counters and rings cannot drift from the
//! jobs, and no operation has to keep them in step itself.

use windlass_core::bell::Rings;
use windlass_core::outcome::Ending;
use windlass_core::store::{Cause, Move, Told};
use windlass_core::unique::UniqueKey;
use windlass_core::{Name, State};

use crate::bug::Bug;
use crate::job::{Job, Seq};
use crate::keys::Keys;
use crate::queue::Queue;
use crate::table::Table;
use crate::tallies::TallyBook;

impl Table {
    /// Puts an accepted job into the table.
    pub(crate) fn enter(&mut self, job: Job) {
        let bug = self.planted();
        if !self.queues.contains_key(&job.new.queue) {
            self.queues.insert(job.new.queue.clone(), Queue::default());
        }
        let queue = self.queues.get_mut(&job.new.queue).expect("it was made above");
        queue.add(&job);
        let change = Move {
            queue: &job.new.queue,
            kind: Some(&job.new.kind),
            from: None,
            to: Some(job.state),
            cause: Cause::Accepted,
            told: Told::default(),
        };
        let books = (&mut self.keys, &mut self.tallies);
        moved(queue, books, &mut self.rings, bug, &job, change);
        self.ids.insert(job.new.id, job.seq);
        self.jobs.insert(job.seq, Box::new(job));
    }

    /// Changes a job, for a cause and maybe with the end of an attempt: takes it out of every order, lets it change, and puts it
    /// back. Answers its state now.
    pub(crate) fn change(
        &mut self,
        seq: Seq,
        (cause, ending): (Cause, Option<Ending>),
        change: impl FnOnce(&mut Job),
    ) -> State {
        let bug = self.planted();
        let job = self.jobs.get_mut(&seq).expect("orders and ids name only jobs of the table");
        let queue = self.queues.get_mut(&job.new.queue).expect("a queue stays as long as it holds jobs");
        let from = job.state;
        queue.take_out(job);
        self.leases.take_out(job);
        change(job);
        queue.add(job);
        self.leases.add(job);
        let change = Move {
            queue: &job.new.queue,
            kind: Some(&job.new.kind),
            from: Some(from),
            to: Some(job.state),
            cause,
            told: told(job, ending),
        };
        debug_assert!(change.is_allowed(), "a {from} job became {}", job.state);
        moved(queue, (&mut self.keys, &mut self.tallies), &mut self.rings, bug, job, change);
        job.state
    }

    /// Writes something about a job that stays in its state. Answers that state.
    pub(crate) fn note(&mut self, seq: Seq, note: impl FnOnce(&mut Job)) -> State {
        let job = self.jobs.get_mut(&seq).expect("orders and ids name only jobs of the table");
        let queue = self.queues.get_mut(&job.new.queue).expect("a queue stays as long as it holds jobs");
        let state = job.state;
        // The lease lists which of its jobs are asked to stop; a scheduled job may get another due instant.
        queue.take_out(job);
        self.leases.take_out(job);
        note(job);
        queue.add(job);
        self.leases.add(job);
        debug_assert_eq!(job.state, state, "a change of state goes through `change`");
        state
    }

    /// Removes a job with all that belongs to it.
    pub(crate) fn remove(&mut self, seq: Seq, cause: Cause) {
        let job = self.jobs.remove(&seq).expect("orders and ids name only jobs of the table");
        self.ids.remove(&job.new.id);
        self.leases.take_out(&job);
        let (bug, keeps_count) = (self.planted(), self.has(Bug::DriftCounts));
        let queue = self.queues.get_mut(&job.new.queue).expect("a queue stays as long as it holds jobs");
        queue.take_out(&job);
        let change = Move {
            queue: &job.new.queue,
            kind: Some(&job.new.kind),
            from: Some(job.state),
            to: None,
            cause,
            told: Told::default(),
        };
        moved(queue, (&mut self.keys, &mut self.tallies), &mut self.rings, bug, &job, change);
        if keeps_count {
            queue.counts.set(job.state, queue.counts.of(job.state) + 1);
        }
        if queue.counts.total() == 0 && !queue.is_defined {
            self.queues.remove(&job.new.queue);
        }
    }
}

/// What every change of state brings with it. A capability that has to act when jobs change their state acts here, in
/// the order of the comments.
fn moved(
    queue: &mut Queue,
    (keys, tallies): (&mut Keys, &mut TallyBook),
    rings: &mut Rings,
    bug: Option<Bug>,
    job: &Job,
    change: Move<'_>,
) {
    if let Some(from) = change.from {
        queue.counts.set(from, queue.counts.of(from) - 1);
    }
    if let Some(to) = change.to {
        queue.counts.set(to, queue.counts.of(to) + 1);
    }
    // Acceptances are counted when no job of their call was refused.
    if change.cause != Cause::Accepted && !(bug == Some(Bug::UncountedReap) && change.cause == Cause::Reaped)
    {
        tallies.count(change);
    }
    if let Some(key) = job.new.unique.filter(|key| gives_up(key, change, bug)) {
        keys.give_up(change.queue, key.digest, job.new.id);
    }
    if change.from == Some(State::Running) && queue.config.concurrency.is_some() {
        // Another one may start.
        rings.add_entered(State::Ready, change.queue);
    }
    if let Some(key) = &job.new.key {
        pass_gate(queue, key, rings, bug, change);
    }
    // Dependents: the end of a parent is told to the jobs that wait for it here, a bounded number at a time.
    // Follow-ups: what an enqueue or a settlement carries is accepted here, after the fence was tested.
    change.ring(rings);
}

/// What tallies are told of a change that has left the job like this.
fn told(job: &Job, ending: Option<Ending>) -> Told {
    let claimed_at = job.claim.as_ref().filter(|_| ending.is_some()).map(|claim| claim.at);
    Told { reason: job.reason, ending, since: claimed_at.or(Some(job.due_at)) }
}

/// What a change of state means to the gate of the job's key.
fn pass_gate(queue: &mut Queue, key: &Name, rings: &mut Rings, bug: Option<Bug>, change: Move<'_>) {
    if change.to == Some(State::Running) {
        queue.gates.started(key);
    }
    if change.from == Some(State::Running)
        && !(bug == Some(Bug::KeyHeldAtReap) && change.cause == Cause::Reaped)
    {
        queue.gates.stopped(key);
        if bug != Some(Bug::GateStaysClosed) {
            queue.gates.open(key);
        }
        if queue.config.keys.as_ref().is_some_and(|keys| keys.concurrency.is_some()) {
            // Another one of the key may start.
            rings.add_entered(State::Ready, change.queue);
        }
    }
    if change.to == Some(State::Ready) {
        queue.gates.came(key);
    }
}

/// Whether a job gives up its unique key with this change.
fn gives_up(key: &UniqueKey, change: Move<'_>, bug: Option<Bug>) -> bool {
    let ends = change.to.is_some_and(State::is_terminal);
    match bug {
        Some(Bug::KeyGoneWithAttempt) if change.cause == Cause::Settled => true,
        Some(Bug::KeyGoneWithReap) if change.cause == Cause::Reaped => true,
        Some(Bug::KeyKeptAtEnd) if change.to == Some(State::Cancelled) => false,
        Some(Bug::WindowGoneWithJob) if ends => true,
        _ => key.lifetime.ends_with(change.to),
    }
}
