//! The gates of a queue: behind which the ready jobs of each key stand, and whose turn it is. Gates come and open by `moves`,
//! also in transactions of the user's own; a claim moves their turns, closes and forgets them.
//!
//! A gate is closed by a definition and says which one that was. Another definition opens it by that, so defining a queue does
//! not write to its gates.

pub(crate) mod sweep;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use rusqlite::{CachedStatement, OptionalExtension, Row, params};
use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{GATES_LOOKED_MAX, KeyRules, PASSED_MAX, Permits, Spent};
use windlass_core::size::Caps;

use crate::aged::Order;
use crate::error::Fault;
use crate::key_rates::{self, KeyRates};
use crate::row;
use crate::row::definition::Definition;
use crate::rules;
use crate::session::Session;
use crate::transaction::{Field, Transaction};

const CAME: &str = include_str!("../queries/gates/came.sql");
const ENDED: &str = include_str!("../queries/gates/ended.sql");
const ANY_CLOSED: &str = include_str!("../queries/gates/any_closed.sql");
const CLOSED_BY: &str = include_str!("../queries/gates/closed_by.sql");
const LOWEST: &str = include_str!("../queries/gates/lowest.sql");
const NEXT: &str = include_str!("../queries/gates/next.sql");
const OPEN_STALE: &str = include_str!("../queries/gates/open_stale.sql");
const OPEN_DUE: &str = include_str!("../queries/gates/open_due.sql");
const FIRST_OPEN: &str = include_str!("../queries/gates/first_open.sql");
const BEHIND: &str = include_str!("../queries/gates/behind.sql");
const RUNNING: &str = include_str!("../queries/gates/running.sql");
const SET: &str = include_str!("../queries/gates/set.sql");
const FORGET: &str = include_str!("../queries/gates/forget.sql");
const FORGET_QUEUE: &str = include_str!("../queries/gates/forget_queue.sql");

/// The instant at which a gate opens that waits for an end, or for another definition.
const NO_TIME: Timestamp = Timestamp::from_micros(i64::MAX);

/// What holds for keys whose queue says nothing of them.
static NO_RULES: KeyRules = KeyRules { concurrency: None, rate: None, weights: BTreeMap::new() };

/// Jobs with a key became ready: their keys have a gate from now on.
pub(crate) async fn came<T: Transaction>(tx: &mut T, seqs: &[i64]) -> Result<(), T::Error> {
    tx.run(CAME, &[list(seqs)]).await
}

/// Jobs of a queue with a key run no longer: opens the gates of their keys that are closed. Called while their rows are there.
pub(crate) async fn ended<T: Transaction>(tx: &mut T, queue: &Name, seqs: &[i64]) -> Result<(), T::Error> {
    // Often none of the queue is closed, and then no row is looked at.
    match tx.find(ANY_CLOSED, &[queue.as_str().into()]).await? {
        Some(_) => tx.run(ENDED, &[list(seqs)]).await,
        None => Ok(()),
    }
}

fn list(seqs: &[i64]) -> Field<'static> {
    Some(row::list(seqs.iter().copied())).into()
}

/// The newest definition that has closed a gate of a queue. Nothing if the queue has no gate.
pub(crate) fn closed_by(session: &Session<'_>, queue: &Name) -> Result<Option<i64>, Fault> {
    Ok(session.prepare(CLOSED_BY)?.query_row([queue.as_str()], |row| row.get(0)).optional()?)
}

/// Forgets gates of a queue that is being removed, at most so many. Answers how many.
pub(crate) fn forget_queue(session: &Session<'_>, queue: &Name, limit: u32) -> Result<u32, Fault> {
    Ok(session.prepare(FORGET_QUEUE)?.execute(params![queue.as_str(), limit])? as u32)
}

/// The gates of one queue, as a claim meets them.
pub(crate) struct Gates<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) queue: &'a Name,
    pub(crate) rules: &'a KeyRules,
    definition: &'a Definition,
}

/// A gate that is open.
pub(crate) struct Gate {
    pub(crate) key: Name,
    turn: i64,
}

/// What the rules for keys say of one key.
pub(crate) struct Standing {
    running: u64,
    /// What was spent of its rate.
    spent: Vec<Spent>,
    permits: Option<Permits>,
    is_paused: bool,
}

/// How it is known how many jobs of a key run.
enum Running<'a> {
    Counted(CachedStatement<'a>),
    /// No more than run in the queue, which are so few that the concurrency of keys cannot bind.
    AtMost(u64),
}

/// The statements that gates are asked by, one after the other. Opening one costs as much as it does.
pub(crate) struct Asking<'a> {
    behind: CachedStatement<'a>,
    set: CachedStatement<'a>,
    forget: CachedStatement<'a>,
    running: Running<'a>,
    rates: Option<KeyRates<'a>>,
}

impl<'a> Gates<'a> {
    pub(crate) fn of(session: &'a Session<'a>, queue: &'a Name, definition: &'a Definition) -> Self {
        let rules = definition.config.keys.as_ref().unwrap_or(&NO_RULES);
        Self { session, queue, rules, definition }
    }

    pub(crate) fn caps(&self) -> Caps {
        self.definition.config.caps
    }

    /// Opens those whose time has come, and those that another definition has closed; a bounded number.
    pub(crate) fn open_due(&self) -> Result<(), Fault> {
        if self.next()?.is_none_or(|next| next > Duration::ZERO) {
            return Ok(());
        }
        let (queue, version, now) = (self.queue.as_str(), self.definition.version, self.session.now);
        let lowest = self.session.prepare(LOWEST)?.query_row([queue], |row| row.get(0)).optional()?;
        let (turn, most) = (lowest.unwrap_or(0i64), GATES_LOOKED_MAX);
        let stale = self.session.prepare(OPEN_STALE)?.execute(params![queue, version, turn, most as i64])?;
        let left = most.saturating_sub(stale) as i64;
        self.session.prepare(OPEN_DUE)?.execute(params![queue, version, now.as_micros(), turn, left])?;
        Ok(())
    }

    /// How long until the next one opens by itself.
    pub(crate) fn next(&self) -> Result<Option<Duration>, Fault> {
        let read = |found: &rusqlite::Row<'_>| Ok((found.get(0)?, found.get(1)?));
        let first: Option<(i64, i64)> =
            self.session.prepare(NEXT)?.query_row([self.queue.as_str()], read).optional()?;
        Ok(match first {
            Some((version, _)) if version < self.definition.version => Some(Duration::ZERO),
            Some((_, open_at)) if open_at < NO_TIME.as_micros() => {
                Some(row::time(open_at).since(self.session.now))
            }
            _ => None,
        })
    }

    /// The first open ones by their turns, those excepted. One whose key does not read is forgotten: no rule could be found
    /// for it.
    pub(crate) fn first_open(&self, count: usize, without: &HashSet<Name>) -> Result<Vec<Gate>, Fault> {
        for _ in 0..GATES_LOOKED_MAX {
            let (gates, nameless) = self.look(count, without)?;
            if !gates.is_empty() || nameless.is_empty() {
                return Ok(gates);
            }
            for key in nameless {
                tracing::warn!(queue = %self.queue, key, "a key does not read: its ready jobs are not handed out");
                self.forget(&key)?;
            }
        }
        Ok(Vec::new())
    }

    /// Open gates, and keys among them that do not read.
    fn look(&self, count: usize, without: &HashSet<Name>) -> Result<(Vec<Gate>, Vec<String>), Fault> {
        let mut statement = self.session.prepare(FIRST_OPEN)?;
        let mut rows = statement.query(params![self.queue.as_str(), (count + without.len()) as i64])?;
        let (mut gates, mut nameless) = (Vec::new(), Vec::new());
        while gates.len() < count
            && let Some(found) = rows.next()?
        {
            match row::readable(row::name(found, 0))? {
                Some(key) if without.contains(&key) => {}
                Some(key) => gates.push(Gate { key, turn: found.get(1)? }),
                None => nameless.push(found.get(0)?),
            }
        }
        Ok((gates, nameless))
    }

    /// What is needed to ask them for so many jobs in all.
    pub(crate) fn asking(&self, wanted: u32) -> Result<Asking<'a>, Fault> {
        let prepare = |sql| self.session.prepare(sql);
        Ok(Asking {
            behind: prepare(BEHIND)?,
            set: prepare(SET)?,
            forget: prepare(FORGET)?,
            running: self.running_for(wanted)?,
            rates: self.rules.rate.map(|rate| KeyRates::of(self.session, rate)).transpose()?,
        })
    }

    fn running_for(&self, wanted: u32) -> Result<Running<'a>, Fault> {
        let Some(most) = self.rules.concurrency else { return Ok(Running::AtMost(0)) };
        let in_queue = rules::running(self.session, self.queue)?;
        Ok(if in_queue + u64::from(wanted) < u64::from(most) {
            Running::AtMost(in_queue)
        } else {
            Running::Counted(self.session.prepare(RUNNING)?)
        })
    }

    /// What the rules say of a key now.
    pub(crate) fn standing(&self, asking: &mut Asking<'_>, key: &Name) -> Result<Standing, Fault> {
        let is_paused = !self.definition.config.pauses.permit_key(key, self.session.now);
        let running = match (&mut asking.running, self.rules.concurrency) {
            (Running::Counted(statement), Some(most)) => self.running(statement, key, most)?,
            (Running::AtMost(running), _) => *running,
            _ => 0,
        };
        let spent = match &mut asking.rates {
            Some(rates) => rates.spent(self.of_key(key))?,
            None => Vec::new(),
        };
        let permits = self.rules.rate.map(|rate| rate.permits(spent.iter().copied(), self.session.now));
        Ok(Standing { running, spent, permits, is_paused })
    }

    /// Jobs of a key that run, as far as it matters.
    fn running(&self, statement: &mut CachedStatement<'_>, key: &Name, most: u32) -> Result<u64, Fault> {
        let mut rows = statement.query(params![self.queue.as_str(), key.as_str(), most])?;
        let mut running = 0;
        while rows.next()?.is_some() {
            running += 1;
        }
        Ok(running)
    }

    fn of_key<'k>(&'k self, key: &'k Name) -> key_rates::OfKey<'k> {
        key_rates::OfKey { queue: self.queue, key, since: self.definition.key_rate_since }
    }

    /// Shows the first ready jobs of a key, as many as a gate looks at that may give so many, until it is enough. Answers
    /// whether there are more in any case.
    pub(crate) fn behind(
        &self,
        asking: &mut Asking<'_>,
        key: &Name,
        (most, nonce): (u32, u64),
        mut is_enough: impl FnMut(&Row<'_>) -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        if let Some(aged) = self.definition.config.aged(nonce) {
            return Order::behind(self.session, self.queue, (key, aged), most, is_enough);
        }
        let looked = i64::from(most) + PASSED_MAX as i64;
        let mut rows = asking.behind.query(params![self.queue.as_str(), key.as_str(), looked])?;
        while let Some(found) = rows.next()? {
            if is_enough(found)? {
                break;
            }
        }
        Ok(false)
    }

    /// A gate was asked and gave so many jobs: spends its permits, moves its turn, and closes or forgets it.
    pub(crate) fn gave(
        &self,
        asking: &mut Asking<'_>,
        gate: &Gate,
        jobs: u32,
        before: Standing,
        has_more: bool,
    ) -> Result<(), Fault> {
        let jobs = u64::from(jobs);
        let mut permits = before.permits;
        if let (Some(rates), true) = (&mut asking.rates, jobs > 0) {
            permits = Some(rates.spend(self.of_key(&gate.key), jobs, before.spent)?);
        }
        if !has_more {
            asking.forget.execute([self.queue.as_str(), gate.key.as_str()])?;
            return Ok(());
        }
        let is_full = self.rules.concurrency.is_some_and(|most| before.running + jobs >= u64::from(most));
        let open_at = match permits {
            _ if before.is_paused => {
                let pause = self.definition.config.pauses.keys.get(&gate.key);
                Some(pause.and_then(|pause| pause.until).unwrap_or(NO_TIME))
            }
            _ if is_full => Some(NO_TIME),
            Some(Permits { jobs: 0, more_at }) => Some(more_at.unwrap_or(NO_TIME)),
            _ => None,
        };
        let cost = row::to_stored(self.rules.cost(&gate.key, jobs));
        if open_at.is_none() && cost == 0 {
            return Ok(());
        }
        let open_at = open_at.map_or(0, |at| at.as_micros().max(1));
        let (turn, version) = (gate.turn.saturating_add(cost), self.definition.version);
        let fields = params![self.queue.as_str(), gate.key.as_str(), turn, open_at, version];
        asking.set.execute(fields)?;
        Ok(())
    }

    fn forget(&self, key: &str) -> Result<(), Fault> {
        self.session.prepare(FORGET)?.execute([self.queue.as_str(), key])?;
        Ok(())
    }
}

impl Standing {
    /// How many more jobs the limits leave; nothing for any number.
    pub(crate) fn room(&self, rules: &KeyRules) -> Option<u64> {
        rules.room(self.running, self.permits)
    }

    /// How many of these jobs a gate may give.
    pub(crate) fn leave(&self, rules: &KeyRules, quota: u32) -> u32 {
        if self.is_paused { 0 } else { rules.leave(quota, self.running, self.permits) }
    }
}
