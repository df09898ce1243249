//! The part of a claim that takes jobs with a key: from one gate after the other, by their turns.

use std::collections::HashSet;

use windlass_core::queue::GATES_LOOKED_MAX;
use windlass_core::store::is_near;
use windlass_core::{Name, State};

use super::Filling;
use super::line::{Candidate, Of, bury};
use crate::error::Fault;
use crate::gates::{Asking, Gate, Gates};
use crate::moves::Standing;
use crate::tallies::KindPlace;

/// What a gate gave.
struct Given {
    jobs: u32,
    /// A job did not fit: nothing more is taken.
    is_claim_over: bool,
}

impl Filling<'_> {
    /// Takes jobs with a key, of these kinds. Answers how many.
    pub(super) fn fill_keyed(
        &mut self,
        gates: &Gates<'_>,
        kinds: &[Name],
        wanted: u32,
    ) -> Result<u32, Fault> {
        gates.open_due()?;
        if wanted == 0 || kinds.is_empty() {
            self.is_near = true;
            return Ok(0);
        }
        let mut asking = gates.asking(wanted)?;
        let (mut left, mut looked, mut is_over, mut exhausted) = (wanted, 0, false, HashSet::new());
        let mut unwritten = Vec::new();
        while left > 0 && !is_over {
            // What was taken has to leave the line first, or it would be seen again.
            self.write(gates.session, &mut unwritten)?;
            let asked = (left as usize).min(GATES_LOOKED_MAX - looked);
            let open = gates.first_open(asked, &exhausted)?;
            if open.is_empty() {
                break;
            }
            looked += open.len();
            let weight_all = open.iter().map(|gate| u64::from(gates.rules.weight(&gate.key))).sum();
            let wanted = left;
            for gate in open {
                let quota = gates.rules.quota(&gate.key, wanted, weight_all);
                let given = self.ask(gates, &mut asking, &gate, (kinds, quota.min(left)), &mut unwritten)?;
                left -= given.jobs;
                if given.jobs < quota {
                    exhausted.insert(gate.key);
                }
                is_over |= given.is_claim_over;
                if is_over || left == 0 {
                    break;
                }
            }
        }
        self.write(gates.session, &mut unwritten)?;
        // Where no gate was asked, nothing is known of their limits.
        self.is_near |= looked == 0;
        Ok(wanted - left)
    }

    /// Asks one gate for jobs of these kinds, so many at most, and lets it be what it is after that. What it gives is left to
    /// the caller to write.
    fn ask<'g>(
        &mut self,
        gates: &Gates<'g>,
        asking: &mut Asking<'_>,
        gate: &Gate,
        (kinds, quota): (&[Name], u32),
        unwritten: &mut Vec<Standing<'g>>,
    ) -> Result<Given, Fault> {
        let Gates { session, queue, rules, .. } = *gates;
        let before = gates.standing(asking, &gate.key)?;
        let most = before.leave(rules, quota);
        self.is_near |= is_near(before.room(rules), quota);
        let mut given = Given { jobs: 0, is_claim_over: false };
        let (mut has_more, mut nameless) = (false, Vec::new());
        let may_have_more = gates.behind(asking, &gate.key, (most, self.request.nonce), |row| {
            let stored = row.get_ref(14)?.as_bytes().unwrap_or_default();
            match kinds.iter().find(|name| name.as_str().as_bytes() == stored) {
                Some(kind) if given.jobs < most => {
                    let of = Of { queue, kind, key: Some(&gate.key), caps: gates.caps() };
                    let Some(Candidate { seq, has_key, due_at, job, .. }) = Candidate::read(row, of)? else {
                        nameless.push(row.get(0)?);
                        return Ok(false);
                    };
                    if self.room.take(job.as_ref().map_or(0, |job| job.payload.len())) {
                        self.add(session, job);
                        let (kind, since) = (session.kind(kind.as_str()), Some(due_at));
                        let state = State::Ready;
                        unwritten.push(Standing { seq, queue, state, has_key, has_gate: true, kind, since });
                        given.jobs += 1;
                    } else {
                        (given.is_claim_over, has_more) = (true, true);
                    }
                }
                _ => has_more = true,
            }
            Ok(given.is_claim_over || (has_more && given.jobs == most))
        })?;
        bury(session, queue, KindPlace::default(), &nameless)?;
        gates.gave(asking, gate, given.jobs, before, has_more || may_have_more)?;
        Ok(given)
    }
}
