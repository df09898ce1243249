//! Hears the notes of other processes, on a connection of its own.
//!
//! A pooler or proxy may take the subscription and never hand anything on. So the listener sends itself a word by
//! another connection, and says so if it does not come.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::bell::{Fresh, Named, Note, Topic, WakeMode, Word};

use crate::backoff::pause;
use crate::tell::{Teller, To, Voice};

/// How long the word to oneself may take.
const TEST_WAIT: Duration = Duration::from_secs(2);

const MISSING: &str = "a word to oneself does not come back";

/// How often it is tried again where nothing comes through.
const DEAF_PAUSE: Duration = Duration::from_secs(300);

/// How much later a process looks for work that others were woken for.
pub const LOOK_LATER: Duration = Duration::from_secs(1);

/// The most looks that are kept in mind.
const LOOKS_MAX: usize = 100;

/// How often a process that waits for ends says so.
pub(crate) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);

/// Rings a bell for the rings of others as long as the store lives.
pub struct Listener<E> {
    teller: Arc<Teller<E>>,
}

/// What a listener has to do at some time.
#[derive(Debug)]
struct Agenda {
    /// The line is tested.
    test: Instant,
    /// Work is looked for, in the order of time.
    looks: Vec<(Instant, Fresh)>,
    /// When this process last said that it waits for ends.
    announced: Option<Instant>,
}

impl Agenda {
    fn new<E: Ear>() -> Self {
        Self { test: Self::next_test::<E>(), looks: Vec::new(), announced: None }
    }

    /// All who listen hear the same last note. The first of them to test spares the others the trouble.
    fn next_test<E: Ear>() -> Instant {
        Instant::now() + E::QUIET.mul_f64(1.0 + fastrand::f64())
    }

    fn look_later(&mut self, list: Vec<Fresh>) {
        for fresh in list {
            let is_it = |known: &Fresh| known.queue == fresh.queue && known.kind == fresh.kind;
            if !self.looks.iter().any(|(_, known)| is_it(known)) && self.looks.len() < LOOKS_MAX {
                self.looks.push((Instant::now() + LOOK_LATER, fresh));
            }
        }
    }
}

impl<E: Ear> Listener<E> {
    /// What the process tells by this teller, it does not hear again.
    pub fn new(teller: Arc<Teller<E>>) -> Self {
        Self { teller }
    }

    fn ear(&self) -> &E {
        self.teller.voice()
    }

    /// Goes on until it is dropped.
    pub async fn run(self) {
        let (mut failures, mut has_warned) = (0_u32, false);
        loop {
            let end = self.listen().await;
            let has_listened = self.teller.mode().get() == WakeMode::Listening;
            self.teller.mode().set(WakeMode::Polling);
            self.teller.bell().set_peers(self.teller.owner(), Arc::default());
            if has_listened {
                (failures, has_warned) = (0, false);
            }
            let pause = match end {
                End::Lost(why) => {
                    tracing::debug!(why, "cannot listen for other processes at present");
                    failures = if has_listened { 0 } else { failures.saturating_add(1) };
                    pause(failures)
                }
                End::Deaf(why) => {
                    if !std::mem::replace(&mut has_warned, true) {
                        tracing::warn!("no wake-up comes through, so workers poll: {why}. {}", E::ADVICE);
                    }
                    DEAF_PAUSE
                }
            };
            sleep(pause).await;
        }
    }

    async fn listen(&self) -> End {
        let mut line = match self.ear().open(self.teller.owner()).await {
            Ok(line) => line,
            Err(end) => return end,
        };
        let Err(end) = self.follow(&mut line).await;
        if let End::Deaf(_) = end {
            self.ear().part(line).await;
        }
        end
    }

    async fn follow(&self, line: &mut E::Line) -> Result<Infallible, End> {
        let (bell, mut agenda) = (self.teller.bell(), Agenda::new::<E>());
        // What was rung before now was not heard.
        bell.ring_all();
        match self.test(line, &mut agenda).await? {
            Returned::Back => self.teller.listens(),
            Returned::Unsent(end) => return Err(end),
            Returned::Missing => return Err(End::Deaf(MISSING.to_owned())),
        }
        self.announce(&mut agenda);
        loop {
            let look = agenda.looks.first().map(|(at, _)| *at);
            let announce = agenda.announced.map(|at| at + ANNOUNCE_INTERVAL);
            tokio::select! {
                text = self.ear().hear(line) => {
                    self.heard(&text?, &mut agenda);
                    agenda.test = Agenda::next_test::<E>();
                }
                () = until(look) => {
                    let (_, fresh) = agenda.looks.remove(0);
                    bell.call(&fresh);
                }
                () = bell.ends_wanted(), if agenda.announced.is_none() => self.announce(&mut agenda),
                () = until(announce) => self.announce(&mut agenda),
                // A socket whose other end vanished without a word looks like a quiet one.
                () = sleep_until(agenda.test) => match self.test(line, &mut agenda).await? {
                    // A word that cannot be sent says nothing about this line.
                    Returned::Back | Returned::Unsent(_) => agenda.test = Agenda::next_test::<E>(),
                    // It has worked, so another line may.
                    Returned::Missing => return Err(End::Lost(MISSING.to_owned())),
                },
            }
        }
    }

    /// Says that this process waits for ends, if it still does.
    fn announce(&self, agenda: &mut Agenda) {
        if !self.teller.bell().is_heard(Topic::Finish) {
            agenda.announced = None;
            return;
        }
        agenda.announced = Some(Instant::now());
        let is_first = self.teller.announce();
        self.tell_if(is_first);
    }

    fn tell_if(&self, is_first: bool) {
        if is_first {
            let teller = Arc::clone(&self.teller);
            tokio::spawn(async move { teller.tell().await });
        }
    }

    /// Whether a word by another connection comes back by this one. What others say meanwhile is heard.
    async fn test(&self, line: &mut E::Line, agenda: &mut Agenda) -> Result<Returned, End> {
        let word = Note { owner: fastrand::u64(..), word: Word::Test };
        let note = word.clone();
        let mut said = pin!(self.ear().say(move || vec![(To::Everyone, note)]));
        let mut late = None;
        loop {
            tokio::select! {
                text = self.ear().hear(line) => match text? {
                    text if Note::read(&text).as_ref() == Some(&word) => return Ok(Returned::Back),
                    text => self.heard(&text, agenda),
                },
                sent = &mut said, if late.is_none() => match sent {
                    Ok(()) => late = Some(Instant::now() + TEST_WAIT),
                    Err(end) => return Ok(Returned::Unsent(end)),
                },
                () = until(late) => return Ok(Returned::Missing),
            }
        }
    }

    fn heard(&self, text: &str, agenda: &mut Agenda) {
        let (teller, bell) = (&self.teller, self.teller.bell());
        let Some(note) = Note::read(text) else { return bell.ring_all() };
        if note.owner == teller.owner() {
            return;
        }
        match note.word {
            Word::Work { work: Named::These(list), hops } => {
                let mut left = Vec::new();
                for fresh in list {
                    match bell.call(&fresh) {
                        0 => teller.had_room(&fresh.queue),
                        jobs => left.push(Fresh { jobs, ..fresh }),
                    }
                }
                self.tell_if(teller.pass(note.owner, left, hops));
            }
            Word::Work { .. } => bell.ring(Topic::Work),
            Word::Look(list) => agenda.look_later(list),
            Word::Cancel(Named::These(ids)) => bell.cancel(&ids),
            Word::Cancel(_) => bell.ring(Topic::Cancel),
            Word::Finish => bell.ring(Topic::Finish),
            Word::EndsWanted => self.tell_if(teller.ends_wanted_by(note.owner)),
            Word::Test => {}
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// What became of a word to oneself.
enum Returned {
    Back,
    Unsent(End),
    Missing,
}

/// How a store hears notes.
pub trait Ear: Voice + Send + Sync + 'static {
    /// The connection that listens.
    type Line: Send;

    /// After so long without a note, or up to twice that, the line is tested.
    const QUIET: Duration;

    /// What to do where nothing comes through.
    const ADVICE: &str;

    /// Connects and subscribes: to what all are told, and to what the process of this number alone is told.
    fn open(&self, owner: u64) -> impl Future<Output = Result<Self::Line, End>> + Send;

    /// The text of the next note. This may be dropped while it waits, and no note goes with it.
    fn hear(&self, line: &mut Self::Line) -> impl Future<Output = Result<String, End>> + Send;

    /// Nothing comes by this connection; takes the subscription back.
    fn part(&self, line: Self::Line) -> impl Future<Output = ()> + Send;
}

/// Why nothing is heard.
#[derive(Debug)]
pub enum End {
    /// The connection is gone or cannot be had.
    Lost(String),
    /// Nothing will come before a setting is changed.
    Deaf(String),
}

impl End {
    /// The other side has gone.
    pub fn broken() -> Self {
        Self::Lost("the connection broke".to_owned())
    }
}

#[cfg(test)]
mod tests;
