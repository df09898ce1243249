//! Which queues maintenance visits. There may be thousands of queues, and most of them have nothing to do.
//!
//! Each duty has two orders beside the names of queues. A queue is *noted* until some instant when a program has written
//! something there that the duty looks for ([`Notes`]); every round visits it. The *agenda* has the instant of the next visit
//! of a queue: when something is due there, and otherwise after about an hour, whatever was lost. A round visits those that
//! are noted and those that are due, and no others, and writes down when each is to be visited next.
//!
//! Nothing depends on any of it but when a queue is looked at: notes may be lost with a server, or fail. A promoter enters
//! all names into its agenda when it begins and once an hour; what it sees in passing it enters for the others.

mod notes;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use windlass_core::Name;
use windlass_core::store::Duty;

use crate::error::Fault;
use crate::registry::name;
use crate::scripts::{FILL_AGENDA, READ_AGENDA, WRITE_VISITED};
use crate::session::Session;
use crate::{Tools, answer};
pub(crate) use notes::{Needs, Notes};

/// A queue in which nothing is known to come is visited after about this long.
const IDLE_VISIT: Duration = Duration::from_secs(60 * 60);

/// How long names wait for each other when all are entered, as long as that takes less than [`IDLE_VISIT`].
const FILL_PACE: Duration = Duration::from_millis(350);

/// How many names one script reads or writes.
const PAGE: usize = 250;

/// How many pages of names one round reads.
const PAGES_MAX: usize = 1_000;

/// What this process knows of the agendas.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    pub(crate) notes: Notes,
    /// When it last entered all names.
    filled: Mutex<Option<Duration>>,
}

/// The queues that one round of a duty visits.
pub(crate) struct Round {
    duty: Duty,
    /// By the server's clock; nothing where the agenda could not be read.
    began: Option<i64>,
    /// How many queues there are.
    registered: usize,
    has_agenda: bool,
    /// Each with whether it is noted.
    queues: BTreeMap<Name, bool>,
}

/// What was seen in a queue that has been visited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Visited {
    pub(crate) next: Next,
    /// Pruning has to look at it.
    pub(crate) has_ended: bool,
    /// Reaping has to look at it.
    pub(crate) has_lost: bool,
}

/// When a queue is to be visited next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Next {
    /// At this instant in micros, or before.
    At(i64),
    /// Nothing is known to come: after about an hour.
    #[default]
    Idle,
    /// Not until another duty or a program asks for it.
    Never,
}

impl Next {
    /// As scripts say it: an instant, or an empty text if nothing is known to come.
    pub(crate) fn read(said: &[u8]) -> Result<Self, Fault> {
        let wrong = || Fault::Corrupt("a visit was answered without an instant".to_owned());
        match std::str::from_utf8(said).map_err(|_| wrong())? {
            "" => Ok(Self::Idle),
            text => text.parse().map(Self::At).map_err(|_| wrong()),
        }
    }

    /// The sooner of both.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(one), Self::At(other)) => Self::At(one.min(other)),
            (at @ Self::At(_), _) | (_, at @ Self::At(_)) => at,
            (Self::Never, Self::Never) => Self::Never,
            _ => Self::Idle,
        }
    }
}

impl Round {
    /// Reads which queues a round visits. While their server is away, those that this process knows.
    pub(crate) async fn read(tools: &Tools, session: &Session, duty: Duty) -> Result<Self, Fault> {
        match Self::read_pages(tools, &session.hasty(), duty).await {
            Ok(round) => Ok(round),
            Err(fault) => {
                let mut known: HashSet<_> = tools.registry.known().into_iter().collect();
                known.extend(tools.holders.queues());
                known.extend(tools.served.queues());
                if known.is_empty() {
                    return Err(fault);
                }
                tracing::debug!(
                    ?fault,
                    duty = duty.name(),
                    "a round visits the queues that were seen before"
                );
                let queues = known.into_iter().map(|queue| (queue, true)).collect();
                Ok(Self { queues, ..Self::unread(duty) })
            }
        }
    }

    /// One that could not be read, and visits nothing.
    pub(crate) fn unread(duty: Duty) -> Self {
        Self { duty, began: None, registered: 0, has_agenda: false, queues: BTreeMap::new() }
    }

    async fn read_pages(tools: &Tools, session: &Session, duty: Duty) -> Result<Self, Fault> {
        let mut round = Self::unread(duty);
        let (mut cursor, mut skip) = (Bytes::from_static(b"0"), Some(0));
        for _ in 0..PAGES_MAX {
            let skipped = skip.map(|skip: usize| skip.to_string()).unwrap_or_default();
            let arguments = vec![tools.clock(), cursor, skipped.into(), PAGE.to_string().into()];
            let keys = vec![tools.keys.noted(duty), tools.keys.agenda(duty), tools.keys.queues()];
            let mut page = answer::array(session.run(&READ_AGENDA, keys, arguments).await?)?.into_iter();
            let mut next =
                || page.next().ok_or_else(|| Fault::Corrupt("an agenda was not answered".to_owned()));
            round.began.get_or_insert(answer::integer(next()?)?);
            round.registered = answer::integer(next()?)? as usize;
            round.has_agenda = answer::integer(next()?)? != 0;
            cursor = answer::bytes(next()?)?;
            let due = answer::integer(next()?)? as usize;
            skip = skip.map(|skip| skip + due).filter(|_| due == PAGE);
            for (place, queue) in page.enumerate() {
                match name(queue) {
                    Ok(queue) => *round.queues.entry(queue).or_default() |= place >= due,
                    Err(fault) => tracing::warn!(?fault, "an entry of an agenda is left out"),
                }
            }
            if cursor.is_empty() && skip.is_none() {
                break;
            }
        }
        Ok(round)
    }

    /// The queues, in byte order.
    pub(crate) fn queues(&self) -> Vec<Name> {
        self.queues.keys().cloned().collect()
    }

    /// Whether the round visits a queue because of its agenda alone.
    pub(crate) fn is_quiet(&self, queue: &Name) -> bool {
        self.began.is_some() && self.queues.get(queue) == Some(&false)
    }

    /// Whether there are queues beside so many. Where those that were visited all fail, others may be well, and a round
    /// that fails would come later to them.
    pub(crate) fn has_others(&self, visited: usize) -> bool {
        visited < self.registered
    }

    /// When the round began, by the server's clock.
    pub(crate) fn began(&self) -> Option<i64> {
        self.began
    }

    /// Writes down what was seen. What is not told of stays as it was: noted, or due.
    pub(crate) async fn end(
        &self,
        tools: &Tools,
        session: &Session,
        visited: &BTreeMap<Name, Visited>,
    ) -> Result<(), Fault> {
        let Some(began) = self.began else { return Ok(()) };
        let keys = &tools.keys;
        let keys = vec![
            keys.queues(),
            keys.noted(self.duty),
            keys.agenda(self.duty),
            keys.agenda(Duty::Prune),
            keys.agenda(Duty::Reap),
        ];
        let entries: Vec<_> = visited.iter().collect();
        for page in entries.chunks(PAGE) {
            let mut arguments = vec![tools.clock(), began.to_string().into()];
            for (queue, visited) in page {
                arguments.push(Bytes::copy_from_slice(queue.as_str().as_bytes()));
                arguments.push(visited.next.instant(began));
                let marks: &[u8] = match (visited.has_ended, visited.has_lost) {
                    (true, true) => b"pr",
                    (true, false) => b"p",
                    (false, true) => b"r",
                    (false, false) => b"",
                };
                arguments.push(Bytes::from_static(marks));
            }
            session.hasty().run(&WRITE_VISITED, keys.clone(), arguments).await?;
        }
        Ok(())
    }

    /// As [`end`](Self::end), where a failure changes nothing but that the queues are visited again.
    pub(crate) async fn try_end(&self, tools: &Tools, session: &Session, visited: &BTreeMap<Name, Visited>) {
        if let Err(fault) = self.end(tools, session, visited).await {
            tracing::debug!(
                ?fault,
                duty = self.duty.name(),
                "it is not written down which queues were visited"
            );
        }
    }
}

impl Next {
    /// The score in the agenda; empty if it has none. Visits of idle queues are spread, so that they do not fall together.
    fn instant(self, began: i64) -> Bytes {
        let idle = || began + IDLE_VISIT.mul_f64(0.75 + 0.5 * fastrand::f64()).as_micros() as i64;
        match self {
            Self::Never => Bytes::new(),
            Self::Idle => idle().to_string().into(),
            Self::At(instant) => instant.min(idle()).to_string().into(),
        }
    }
}

/// Enters all names into the agenda of the promoter, unless this process did within the last hour and a round has found the
/// agenda. Names that are there stay as they are. It may fail, and is repeated by the next round then.
pub(crate) async fn fill(tools: &Tools, session: &Session, round: &Round) {
    let now = tools.time();
    let is_due = || {
        let filled = tools.agenda.filled.lock().unwrap_or_else(PoisonError::into_inner);
        !round.has_agenda || filled.is_none_or(|at| now.saturating_sub(at) >= IDLE_VISIT)
    };
    if round.began.is_none() || !is_due() {
        return;
    }
    match fill_all(tools, session).await {
        Ok(()) => {
            *tools.agenda.filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
        Err(fault) => tracing::debug!(?fault, "the agenda is not complete"),
    }
}

async fn fill_all(tools: &Tools, session: &Session) -> Result<(), Fault> {
    let names: Vec<_> = tools.registry.all(session, &tools.keys).await?;
    let names: HashSet<_> = names.into_iter().collect();
    let count = names.len();
    let span = FILL_PACE.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)).min(IDLE_VISIT);
    // By chance and not by name: queues that are named alike are about as busy.
    let names: Vec<_> = names.iter().map(|name| Bytes::copy_from_slice(name.as_str().as_bytes())).collect();
    for (page, names) in names.chunks(PAGE).enumerate() {
        let numbers = [span.as_micros() as usize, count, page * PAGE];
        let numbers = numbers.map(|number| Bytes::from(number.to_string()));
        let arguments = [tools.clock()].into_iter().chain(numbers).chain(names.iter().cloned()).collect();
        session.hasty().run(&FILL_AGENDA, vec![tools.keys.agenda(Duty::Promote)], arguments).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sooner_visit_counts_and_none_is_later_than_that_of_an_idle_queue() {
        use Next::{At, Idle, Never};
        assert_eq!((At(3).or(At(2)), At(3).or(Never), Idle.or(At(1))), (At(2), At(3), At(1)));
        assert_eq!((Idle.or(Never), Never.or(Never)), (Idle, Never));
        let hour = 3_600_000_000;
        for next in [Idle, At(i64::MAX)] {
            let instant: i64 = String::from_utf8(next.instant(7).to_vec()).unwrap().parse().unwrap();
            assert!(instant >= 7 + hour * 3 / 4 && instant <= 7 + hour * 5 / 4, "{instant}");
        }
        assert_eq!((At(9).instant(7), Never.instant(7)), ("9".into(), Bytes::new()));
        assert_eq!(Next::read(b"12").ok(), Some(At(12)));
        assert_eq!(Next::read(b"").ok(), Some(Idle));
        assert!(Next::read(b"soon").is_err());
    }
}
