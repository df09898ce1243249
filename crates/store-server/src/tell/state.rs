//! What is owed to other processes, and what is remembered about them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::Name;
use windlass_core::bell::{Fresh, Named, Peers, Rings, Topic, WakeMode};

use crate::listen::ANNOUNCE_INTERVAL;

/// At most so often one process is asked to look later on, for each queue.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a process without room waits until it passes on the next note: twice as long each time, as long as it has
/// none. Where all are busy there is no point in passing on.
const PASS_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// How long a process counts as waiting for ends after it has said so.
const ENDS_WANTED: Duration = Duration::from_secs(12);
/// Within this time a process that waits for ends says so again.
const ENDS_HEARD: Duration = ANNOUNCE_INTERVAL.saturating_add(Duration::from_secs(1));
/// A process that says so is told of ends that were up to this long ago.
const ENDS_RECENT: Duration = Duration::from_secs(2);
/// The most queues, and processes, that something is remembered about.
const REMEMBERED_MAX: usize = 1_000;

/// What is owed and known.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) owed: Owed,
    /// A call is on its way to tell what is owed.
    pub(super) is_telling: bool,
    /// Notes are on their way.
    pub(super) is_saying: bool,
    /// When the last notes went out, and how long the next ones wait after that.
    pub(super) told: Option<Instant>,
    pub(super) pause: Duration,
    /// Who serves the store.
    pub(super) peers: Arc<Peers>,
    /// When it was last read who serves the store, and when that was last tried.
    pub(super) peers_read: Option<Instant>,
    pub(super) peers_tried: Option<Instant>,
    /// When a process was last asked to look later, by queue.
    looks: HashMap<Name, Instant>,
    /// When a note about a queue may be passed on again, and how long the pause after that is.
    passes: HashMap<Name, (Instant, Duration)>,
    /// Processes that wait for ends, and until when.
    ends_wanted: Vec<(u64, Instant)>,
    /// When there were ends that no process waited for.
    ends_untold: Option<Instant>,
    /// Since when this process hears others.
    listens_since: Option<Instant>,
}

/// What others were not told yet.
#[derive(Debug, Default)]
pub(super) struct Owed {
    pub(super) rings: Rings,
    /// Work that workers here were woken for, and another process looks for later.
    pub(super) looks: Vec<Fresh>,
    pub(super) passed: Vec<Passed>,
    /// This process waits for ends.
    pub(super) announces: bool,
}

/// Work that another process told of and that there is no room for here.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) fresh: Fresh,
    pub(super) from: u64,
    pub(super) hops: u8,
}

impl Owed {
    pub(super) fn is_empty(&self) -> bool {
        self.rings.is_empty() && self.looks.is_empty() && self.passed.is_empty() && !self.announces
    }

    /// Whether it has to be known who serves which queue.
    pub(super) fn names_work(&self) -> bool {
        let names = matches!(self.rings.work(), Named::These(_));
        names || !self.looks.is_empty() || !self.passed.is_empty()
    }
}

impl State {
    /// This process hears others from now on.
    pub(super) fn listens(&mut self, now: Instant) {
        self.listens_since = Some(now);
    }

    /// Whether this process has listened for long enough to know all processes that wait for ends.
    pub(super) fn knows_who_waits(&self, mode: WakeMode, now: Instant) -> bool {
        mode == WakeMode::Listening && self.listens_since.is_some_and(|since| now - since > ENDS_HEARD)
    }

    /// Owes rings. Ends that no process waits for are kept to oneself.
    pub(super) fn owe_rings(&mut self, rings: Rings, mode: WakeMode, now: Instant) {
        let keeps_ends = self.knows_who_waits(mode, now) && self.ends_wanted_now(now).is_empty();
        let rings = if keeps_ends && rings.has(Topic::Finish) {
            self.ends_untold = Some(now);
            rings.without(Topic::Finish)
        } else {
            rings
        };
        self.owed.rings = std::mem::take(&mut self.owed.rings).and(rings);
    }

    /// Processes that wait for ends.
    pub(super) fn ends_wanted_now(&mut self, now: Instant) -> &[(u64, Instant)] {
        self.ends_wanted.retain(|(_, until)| *until > now);
        &self.ends_wanted
    }

    /// A process waits for ends. If there were some a moment ago, it has not heard of them.
    pub(super) fn want_ends(&mut self, process: u64, now: Instant) {
        let until = now + ENDS_WANTED;
        self.ends_wanted_now(now);
        if let Some(known) = self.ends_wanted.iter_mut().find(|(known, _)| *known == process) {
            known.1 = until;
            return;
        }
        self.ends_wanted.truncate(REMEMBERED_MAX);
        self.ends_wanted.push((process, until));
        if self.ends_untold.is_some_and(|at| now - at < ENDS_RECENT) {
            self.owed.rings.add_ends();
        }
    }

    /// Whether a process may be asked to look later for work of this queue.
    pub(super) fn may_look(&mut self, queue: &Name, now: Instant) -> bool {
        if self.looks.get(queue).is_some_and(|&last| now - last < LOOK_INTERVAL) {
            return false;
        }
        make_room(&mut self.looks);
        self.looks.insert(queue.clone(), now);
        true
    }

    /// Whether a note about this queue may be passed on.
    pub(super) fn may_pass(&mut self, queue: &Name, now: Instant) -> bool {
        let (next, pause) = self.passes.get(queue).copied().unwrap_or((now, PASS_PAUSE.0));
        if now < next {
            return false;
        }
        make_room(&mut self.passes);
        self.passes.insert(queue.clone(), (now + pause, (pause * 2).min(PASS_PAUSE.1)));
        true
    }

    /// There was room for work of this queue.
    pub(super) fn had_room(&mut self, queue: &Name) {
        self.passes.remove(queue);
    }
}

fn make_room<T>(known: &mut HashMap<Name, T>) {
    if known.len() >= REMEMBERED_MAX {
        known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a good name")
    }

    #[test]
    fn a_process_that_stays_without_room_passes_on_ever_more_rarely() {
        let (mut state, queue, start) = (State::default(), name("q"), Instant::now());
        let passed = |state: &mut State, seconds: u64| {
            let steps = (0..seconds * 1_000)
                .filter(|&millis| state.may_pass(&queue, start + Duration::from_millis(millis)));
            steps.count()
        };
        assert!((8..=14).contains(&passed(&mut state, 60)), "in a minute of notes");
        state.had_room(&queue);
        assert!(state.may_pass(&queue, start + Duration::from_secs(60)));
    }

    #[test]
    fn one_look_per_queue_and_second_is_asked_for() {
        let (mut state, now) = (State::default(), Instant::now());
        assert!(state.may_look(&name("q"), now) && !state.may_look(&name("q"), now));
        assert!(state.may_look(&name("r"), now), "queues are apart");
        assert!(state.may_look(&name("q"), now + LOOK_INTERVAL));
    }

    #[test]
    fn ends_are_owed_while_a_process_waits_for_them_and_to_one_that_comes_a_moment_late() {
        let (mut state, now) = (State::default(), Instant::now() + 2 * ENDS_HEARD);
        let ends = || Rings::about(Topic::Finish);
        state.listens(now);
        state.owe_rings(ends(), WakeMode::Listening, now + ANNOUNCE_INTERVAL);
        assert!(!std::mem::take(&mut state.owed).is_empty(), "one that waits may have said so before");
        state.listens(now - 2 * ENDS_HEARD);
        state.owe_rings(ends(), WakeMode::Listening, now);
        assert!(state.owed.is_empty(), "no process waits");
        state.owe_rings(ends(), WakeMode::Polling, now);
        assert!(!std::mem::take(&mut state.owed).is_empty(), "it would not hear of one that does");
        state.want_ends(7, now + Duration::from_secs(1));
        assert!(!std::mem::take(&mut state.owed).is_empty(), "the end was a second ago");
        state.want_ends(7, now + Duration::from_secs(1));
        assert!(state.owed.is_empty(), "it has been told of that");
        state.owe_rings(ends(), WakeMode::Listening, now + Duration::from_secs(10));
        assert!(!std::mem::take(&mut state.owed).is_empty());
        state.owe_rings(ends(), WakeMode::Listening, now + Duration::from_secs(20));
        assert!(state.owed.is_empty(), "it waits no more");
    }
}
