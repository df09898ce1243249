//! Tells other processes what this one has written, so that about as many workers come as there are jobs.
//!
//! A note goes out at once while it is quiet, and every few milliseconds while it is not; what is rung meanwhile goes
//! along with the next one. Whom a note about work goes to is chosen among the processes that the leases name
//! ([`Peers::choose`]). Which of them have died is not known, and a lost note is not noticed: so one more is told than
//! there are jobs, another one looks a second later, and every worker polls.

mod state;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use windlass_core::Name;
use windlass_core::bell::{
    Bell, Choice, Fresh, Named, Note, Peers, Rings, Topic, WakeMode, WakeModeCell, Word,
};

use crate::listen::End;
use state::{Owed, Passed, State};
use words::Words;

/// After a note the next one waits at least this long; twice as long each time that it had to.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// How old the list of processes may be when it is used, when it is read again for the next time, and how long reading
/// it may hold up a note.
const PEERS_OLD: Duration = Duration::from_secs(5);
const PEERS_REFRESH: Duration = Duration::from_secs(2);
const PEERS_WAIT: Duration = Duration::from_millis(200);
/// How often a note is passed on at most.
const HOPS_MAX: u8 = 3;
/// How many a note is passed on to, per job.
const PASSED_TO: u32 = 2;
/// More processes that wait for ends are told all at once.
const ENDS_TOLD_MAX: usize = 8;

/// To whom a note goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Everyone who listens.
    Everyone,
    /// One process.
    Process(u64),
}

/// How a store sends notes, and how it knows who serves it.
pub trait Voice: Send + Sync {
    /// How long a note waits at most after the one before.
    const PAUSE_MAX: Duration;

    /// Sends notes. They are made at the last moment, so that what is rung while all connections are busy goes along.
    fn say(
        &self,
        notes: impl FnOnce() -> Vec<(To, Note)> + Send,
    ) -> impl Future<Output = Result<(), End>> + Send;

    /// The workers whose leases live.
    fn peers(&self) -> impl Future<Output = Result<Peers, End>> + Send;
}

/// What is on the way to other processes.
pub struct Teller<V> {
    voice: V,
    owner: u64,
    bell: Bell,
    mode: Arc<WakeModeCell>,
    state: Mutex<State>,
}

impl<V: Voice> Teller<V> {
    /// One for a process that has this bell; its notes carry a name of their own.
    pub fn new(voice: V, bell: Bell, mode: Arc<WakeModeCell>) -> Self {
        Self { voice, owner: fastrand::u64(..), bell, mode, state: Mutex::default() }
    }

    /// The name that its notes carry.
    pub fn owner(&self) -> u64 {
        self.owner
    }

    /// How this process hears of others.
    pub fn mode(&self) -> &Arc<WakeModeCell> {
        &self.mode
    }

    /// The bell of this process.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// What sends the notes.
    pub fn voice(&self) -> &V {
        &self.voice
    }

    /// Rings here. Whether others are to be told as well: then the caller has to have [`tell`](Self::tell) run.
    #[must_use]
    pub fn ring(&self, rings: Rings) -> bool {
        let named = match rings.work() {
            Named::These(list) => list.clone(),
            Named::None | Named::Any => Vec::new(),
        };
        let left = rings.ring(&self.bell);
        let is_left = |fresh: &Fresh| match left.work() {
            Named::These(list) => list.iter().any(|left| left.queue == fresh.queue),
            Named::None | Named::Any => false,
        };
        // Workers here have room for it, if their runtime lets them: another process looks whether they came.
        let taken: Vec<_> = named.into_iter().filter(|fresh| !is_left(fresh)).collect();
        self.owe(|state, now| {
            for fresh in taken {
                if state.may_look(&fresh.queue, now) {
                    state.owed.looks.push(fresh);
                }
            }
            state.owe_rings(left, self.mode.get(), now);
        })
    }

    /// Takes rings for a write that is sent at this moment, to be told right behind it: where no worker is here, it is
    /// quiet, and it is known whom to tell. Then the caller has to send [`notes`](Self::notes) and say that they have
    /// [`gone`](Self::gone). Else it rings when the write has taken effect. Notes about a write that comes to nothing cost
    /// those who are told a look.
    #[must_use]
    pub fn tells_along(&self, rings: Rings) -> bool {
        if rings.is_empty() || self.bell.is_heard(Topic::Work) || self.peers_are_older_than(PEERS_OLD) {
            return false;
        }
        let (mut state, now) = (self.state(), Instant::now());
        let is_quiet = state.told.is_none_or(|told| told + state.pause <= now);
        if !is_quiet || state.is_telling || state.is_saying || !state.owed.is_empty() {
            return false;
        }
        state.owe_rings(rings, self.mode.get(), now);
        state.is_telling = true;
        true
    }

    /// The notes that go along with a write.
    pub fn notes(&self) -> Vec<(To, Note)> {
        let peers = Arc::clone(&self.state().peers);
        self.make(false, Some(&peers))
    }

    /// Notes that were sent along with a write have gone.
    pub async fn gone(&self) {
        self.state().is_saying = false;
        if self.peers_are_older_than(PEERS_REFRESH) {
            // Needed again soon.
            self.read_peers().await;
        }
    }

    /// As [`ring`](Self::ring), where this process need not be told.
    #[must_use]
    pub fn ring_elsewhere(&self, rings: Rings) -> bool {
        self.owe(|state, now| state.owe_rings(rings, self.mode.get(), now))
    }

    /// Passes on what there is no room for here, unless that was done lately.
    #[must_use]
    pub(crate) fn pass(&self, from: u64, left: Vec<Fresh>, hops: u8) -> bool {
        if hops >= HOPS_MAX {
            return false;
        }
        self.owe(|state, now| {
            for fresh in left {
                if state.may_pass(&fresh.queue, now) {
                    state.owed.passed.push(Passed { fresh, from, hops: hops + 1 });
                }
            }
        })
    }

    /// There was room for work of this queue.
    pub(crate) fn had_room(&self, queue: &Name) {
        self.state().had_room(queue);
    }

    /// This process hears others from now on.
    pub(crate) fn listens(&self) {
        self.state().listens(Instant::now());
        self.mode.set(WakeMode::Listening);
    }

    /// Says that this process waits for ends.
    #[must_use]
    pub(crate) fn announce(&self) -> bool {
        self.owe(|state, _| state.owed.announces = true)
    }

    /// A process waits for ends. If there were some a moment ago, it has not heard of them.
    #[must_use]
    pub(crate) fn ends_wanted_by(&self, process: u64) -> bool {
        self.owe(|state, now| state.want_ends(process, now))
    }

    fn owe(&self, add: impl FnOnce(&mut State, Instant)) -> bool {
        let mut state = self.state();
        add(&mut state, Instant::now());
        !state.owed.is_empty() && !std::mem::replace(&mut state.is_telling, true)
    }

    /// Tells what is owed. Never fails: polling is the truth.
    pub async fn tell(&self) {
        let (next, is_saying) = {
            let state = self.state();
            let next = state.told.map(|told| told + state.pause);
            (next.filter(|&next| next > Instant::now()), state.is_saying)
        };
        if let Some(next) = next {
            sleep_until(next).await;
        }
        let had_to_wait = next.is_some() || is_saying;
        let has_work = self.state().owed.names_work();
        let peers = if has_work { self.known_peers().await } else { None };
        let mut is_made = false;
        let make = || {
            is_made = true;
            self.make(had_to_wait, peers.as_deref())
        };
        let said = self.voice.say(make).await;
        self.state().is_saying = false;
        if let Err(end) = said {
            tracing::debug!(?end, "cannot ring for other processes");
            if !is_made {
                // No call is on its way any more, so that the next ring sends one.
                let mut state = self.state();
                (state.owed, state.is_telling) = (Owed::default(), false);
            }
        }
        if has_work && peers.is_some() && self.peers_are_older_than(PEERS_REFRESH) {
            // Needed again soon.
            self.read_peers().await;
        }
    }

    /// The processes that serve the store, if they were read lately or can be read now.
    async fn known_peers(&self) -> Option<Arc<Peers>> {
        let is_tried = self.state().peers_tried.is_some_and(|tried| tried.elapsed() < PEERS_OLD);
        if self.peers_are_older_than(PEERS_OLD) && !is_tried {
            // All are told when it takes too long.
            let _ = timeout(PEERS_WAIT, self.read_peers()).await;
        }
        (!self.peers_are_older_than(PEERS_OLD)).then(|| Arc::clone(&self.state().peers))
    }

    /// Reads who serves the store.
    pub async fn read_peers(&self) {
        let began = Instant::now();
        self.state().peers_tried = Some(began);
        match self.voice.peers().await {
            Ok(peers) => {
                let mut state = self.state();
                (state.peers, state.peers_read) = (Arc::new(peers), Some(began));
                // Workers that are not woken have to poll as if they were alone.
                let known = if self.mode.get() == WakeMode::Listening {
                    Arc::clone(&state.peers)
                } else {
                    Arc::default()
                };
                self.bell.set_peers(self.owner, known);
            }
            Err(end) => tracing::debug!(?end, "cannot read which processes serve the store: all are told"),
        }
    }

    /// Whether it was not read within this time who serves the store.
    pub fn peers_are_older_than(&self, age: Duration) -> bool {
        self.state().peers_read.is_none_or(|read| read.elapsed() > age)
    }

    /// Takes what is owed and makes notes of it.
    fn make(&self, had_to_wait: bool, peers: Option<&Peers>) -> Vec<(To, Note)> {
        let mut state = self.state();
        let now = Instant::now();
        let owed = std::mem::take(&mut state.owed);
        (state.is_telling, state.is_saying) = (false, true);
        state.told = Some(now);
        state.pause = if had_to_wait { (state.pause * 2).min(V::PAUSE_MAX) } else { PAUSE_MIN };
        let mut words = Words::default();
        match owed.rings.work() {
            Named::None => {}
            Named::Any => words.add(To::Everyone, Word::Work { work: Named::Any, hops: 0 }),
            Named::These(list) => {
                for fresh in list {
                    let later = self.route(&mut words, peers, fresh, &[self.owner], 0);
                    if let Some(later) = later.filter(|_| state.may_look(&fresh.queue, now)) {
                        words.add(To::Process(later), Word::Look(vec![Fresh { jobs: 1, ..fresh.clone() }]));
                    }
                }
            }
        }
        for Passed { fresh, from, hops } in owed.passed {
            let fresh = Fresh { jobs: fresh.jobs.saturating_mul(PASSED_TO), ..fresh };
            self.route(&mut words, peers, &fresh, &[self.owner, from], hops);
        }
        for fresh in owed.looks {
            let fresh = Fresh { jobs: 1, ..fresh };
            if let Some(Choice::These { now, .. }) = peers.map(|peers| peers.choose(&fresh, &[self.owner]))
                && let Some(&process) = now.first()
            {
                words.add(To::Process(process), Word::Look(vec![fresh]));
            }
        }
        if !owed.rings.cancels().is_none() {
            words.add(To::Everyone, Word::Cancel(owed.rings.cancels().clone()));
        }
        if owed.rings.has(Topic::Finish) {
            let knows_who_waits = state.knows_who_waits(self.mode.get(), now);
            let wanted = state.ends_wanted_now(now);
            if !knows_who_waits || wanted.len() > ENDS_TOLD_MAX {
                words.add(To::Everyone, Word::Finish);
            } else {
                wanted.iter().for_each(|(process, _)| words.add(To::Process(*process), Word::Finish));
            }
        }
        if owed.announces {
            words.add(To::Everyone, Word::EndsWanted);
        }
        words.into_notes(self.owner)
    }

    /// Says to whom fresh work is told, and answers who may look later on.
    fn route(
        &self,
        words: &mut Words,
        peers: Option<&Peers>,
        fresh: &Fresh,
        except: &[u64],
        hops: u8,
    ) -> Option<u64> {
        let word =
            |jobs, hops| Word::Work { work: Named::These(vec![Fresh { jobs, ..fresh.clone() }]), hops };
        match peers.map_or(Choice::Everyone { each: fresh.jobs }, |peers| peers.choose(fresh, except)) {
            // What all have heard is not passed on.
            Choice::Everyone { each } => {
                words.add(To::Everyone, word(each, HOPS_MAX));
                None
            }
            Choice::These { now, each, later } => {
                now.into_iter().for_each(|process| words.add(To::Process(process), word(each, hops)));
                later
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
