//! The part of a claim that takes jobs with a key: from one gate after the other, by their turns.

use std::collections::BTreeSet;

use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Aged, GATES_LOOKED_MAX, KeyRules, PASSED_MAX, Permits};
use windlass_core::store::is_near;

use super::Filling;
use crate::aged;
use crate::bug::Bug;
use crate::gates::{Gates, NO_TIME};
use crate::job::Seq;
use crate::table::Table;

impl Table {
    /// Takes jobs with a key, of these kinds. Answers how many.
    pub(super) fn fill_keyed(
        &mut self,
        filling: &mut Filling<'_>,
        queue: &Name,
        kinds: &[Name],
        wanted: u32,
        now: Timestamp,
    ) -> u32 {
        let rules = self.config(queue).keys.clone().unwrap_or_default();
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.gates.open_due(now);
        }
        let (mut left, mut looked, mut is_over, mut exhausted) = (wanted, 0, false, BTreeSet::new());
        while left > 0 && !is_over && !kinds.is_empty() {
            let asked = (left as usize).min(GATES_LOOKED_MAX - looked);
            let keys = self.gates(queue).map_or_else(Vec::new, |gates| gates.first_open(asked, &exhausted));
            if keys.is_empty() {
                break;
            }
            looked += keys.len();
            let weight_all = keys.iter().map(|key| u64::from(rules.weight(key))).sum();
            let wanted = left;
            for key in keys {
                let quota = rules.quota(&key, wanted, weight_all);
                let given = self.ask(filling, queue, (&key, &rules), kinds, quota.min(left), now);
                left -= given.jobs;
                if given.jobs < quota {
                    exhausted.insert(key);
                }
                is_over |= given.is_claim_over;
                if is_over || left == 0 {
                    break;
                }
            }
        }
        // Where no gate was asked, nothing is known of their limits.
        filling.is_near |= looked == 0;
        wanted - left
    }

    /// Asks one gate for jobs, and decides what becomes of it.
    fn ask(
        &mut self,
        filling: &mut Filling<'_>,
        queue: &Name,
        (key, rules): (&Name, &KeyRules),
        kinds: &[Name],
        quota: u32,
        now: Timestamp,
    ) -> Given {
        let (running, permits, is_paused) = self.gate_rules(queue, (key, rules), now);
        let most = if is_paused { 0 } else { rules.leave(quota, running, permits) };
        filling.is_near |= is_near(rules.room(running, permits), quota);
        let mut given = Given { jobs: 0, is_claim_over: false };
        let aged = self.aged(queue, filling.nonce).filter(|_| !self.has(Bug::StrictKeys));
        for seq in self.behind(queue, key, aged, kinds, most) {
            if !self.take(filling, seq, now) {
                given.is_claim_over = true;
                break;
            }
            given.jobs += 1;
        }
        let holds_turn = self.has(Bug::NoTurns);
        let gates = &mut self.queues.get_mut(queue).expect("it has a gate").gates;
        gates.spend(key, rules, u64::from(given.jobs), now);
        if !holds_turn {
            gates.pay(key, rules.cost(key, u64::from(given.jobs)));
        }
        let (running, permits, _) = self.gate_rules(queue, (key, rules), now);
        let is_full = rules.concurrency.is_some_and(|most| running >= u64::from(most));
        let found = self.queues.get_mut(queue).expect("it has a gate");
        let (gates, pause) = (&mut found.gates, found.config.pauses.keys.get(key));
        if gates.behind(key).next().is_none() {
            gates.forget(key);
        } else if is_paused {
            gates.close(key, pause.and_then(|pause| pause.until).unwrap_or(NO_TIME));
        } else if is_full {
            gates.close(key, NO_TIME);
        } else if let Some(Permits { jobs: 0, more_at }) = permits {
            gates.close(key, more_at.unwrap_or(NO_TIME));
        }
        given
    }

    /// How many jobs of a key run, what its rate permits, and whether it is paused.
    fn gate_rules(
        &self,
        queue: &Name,
        (key, rules): (&Name, &KeyRules),
        now: Timestamp,
    ) -> (u64, Option<Permits>, bool) {
        let found = &self.queues[queue];
        let running = if self.has(Bug::IgnoreKeyConcurrency) { 0 } else { found.gates.running(key) };
        let permits = found.gates.permits(key, rules, now).filter(|_| !self.has(Bug::IgnoreKeyRate));
        let is_paused = !found.config.pauses.permit_key(key, now) && !self.has(Bug::IgnoreKeyPause);
        (running, permits, is_paused)
    }

    /// The first ready jobs of a key and of these kinds.
    fn behind(&self, queue: &Name, key: &Name, aged: Option<Aged>, kinds: &[Name], most: u32) -> Vec<Seq> {
        let Some(gates) = self.gates(queue) else { return Vec::new() };
        let looks = most as usize + PASSED_MAX;
        let first = match aged {
            Some(aged) => aged::first(gates.line(key).into_iter(), aged, looks),
            None => gates.behind(key).take(looks).collect(),
        };
        let seqs = first.into_iter().map(|(_, _, seq)| seq);
        let known = seqs.filter(|seq| kinds.contains(&self.jobs[seq].new.kind));
        known.take(most as usize).collect()
    }

    fn gates(&self, queue: &Name) -> Option<&Gates> {
        self.queues.get(queue).map(|queue| &queue.gates)
    }
}

/// What a gate gave.
struct Given {
    jobs: u32,
    /// A job did not fit: nothing more is taken.
    is_claim_over: bool,
}
