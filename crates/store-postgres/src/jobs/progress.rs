//! What running attempts say of themselves: that they have begun, and how far they are. Each is compare-and-set on the
//! fence.

use std::collections::HashSet;

use windlass_core::size::TooLarge;
use windlass_core::store::{Begin, Progress, Right, Settled};
use windlass_core::{Fence, JobId, Name, State};

use super::settle::{Fenced, Writes, holding, index};
use crate::Tools;
use crate::definitions::ROUNDS;
use crate::error::Fault;
use crate::functions::{BEGIN, PROGRESS};
use crate::row::at;
use crate::session::{Parameters, Session};

pub(super) async fn begin(session: &Session, attempts: &[Begin]) -> Result<Vec<Settled>, Fault> {
    let mut answers = vec![Settled::Fenced; attempts.len()];
    if attempts.is_empty() {
        return Ok(answers);
    }
    let mut order: Vec<usize> = (0..attempts.len()).collect();
    order.sort_by_key(|&place| attempts[place].id);
    let Writes { ids, queues, fences, nonces } =
        Writes::of(order.iter().map(|&place| attempts[place].write()));
    let rows = session.call(&BEGIN, &[&ids, &queues, &fences, &nonces]).await?;
    let mut begun = HashSet::new();
    for row in &rows {
        begun.insert(attempts[order[index(row, 0, order.len())?]].write());
    }
    // One that stands twice in the call is written once.
    for (answer, attempt) in answers.iter_mut().zip(attempts) {
        if begun.contains(&attempt.write()) {
            *answer = Settled::Applied(State::Running);
        }
    }
    Ok(answers)
}

pub(super) async fn progress(
    tools: &Tools,
    session: &Session,
    reports: &[Progress],
) -> Result<Vec<Settled>, Fault> {
    if reports.is_empty() {
        return Ok(Vec::new());
    }
    'anew: for _ in 0..ROUNDS {
        let names = reports.iter().map(|report| &report.queue);
        let definitions = tools.definitions.of(session, names).await?;
        let check = |report: &Progress| {
            let cap = definitions.of(&report.queue).caps.output;
            TooLarge::check("progress", report.progress.len(), cap)
        };
        // The newest report of an attempt is what counts, so of several only the last is written.
        let mut order: Vec<usize> =
            (0..reports.len()).filter(|&place| check(&reports[place]).is_ok()).collect();
        order.sort_by_key(|&place| {
            let Progress { id, fence, queue, .. } = &reports[place];
            (*id, fence.number, fence.nonce, queue.clone(), place)
        });
        let is_last = |index: usize| {
            order.get(index + 1).is_none_or(|&next| !reports[next].is_about(&reports[order[index]]))
        };
        let written: Vec<usize> =
            (0..order.len()).filter(|&index| is_last(index)).map(|index| order[index]).collect();
        let Writes { ids, queues, fences, nonces } =
            Writes::of(written.iter().map(|&place| reports[place].write()));
        let texts: Vec<&[u8]> = written.iter().map(|&place| &reports[place].progress[..]).collect();
        let version = definitions.version;
        let parameters: Parameters<'_> = &[&version, &ids, &queues, &fences, &nonces, &texts];
        let rows = session.call(&PROGRESS, parameters).await?;
        let mut holds = HashSet::new();
        for row in &rows {
            if at::<&str>(row, 0)? == "stale" {
                tools.definitions.forget();
                continue 'anew;
            }
            let report = &reports[written[index(row, 1, written.len())?]];
            holds.insert((report.id, report.fence, report.queue.clone()));
        }
        // What is too large is refused only to those whose fence holds.
        let large: Vec<&Progress> = reports.iter().filter(|report| check(report).is_err()).collect();
        if !large.is_empty() {
            let writes = Writes::of(large.iter().map(|report| report.write()));
            for place in holding(session, Right::Fence, &writes).await? {
                holds.insert((large[place].id, large[place].fence, large[place].queue.clone()));
            }
        }
        let answer = |report: &Progress| match check(report) {
            _ if !holds.contains(&(report.id, report.fence, report.queue.clone())) => Settled::Fenced,
            Ok(()) => Settled::Applied(State::Running),
            Err(error) => Settled::Refused(error),
        };
        return Ok(reports.iter().map(answer).collect());
    }
    Err(Fault::Defect("the definitions of queues never stand still".to_owned()))
}

impl Fenced for Begin {
    fn write(&self) -> (JobId, &Name, Fence) {
        (self.id, &self.queue, self.fence)
    }
}

impl Fenced for Progress {
    fn write(&self) -> (JobId, &Name, Fence) {
        (self.id, &self.queue, self.fence)
    }
}

trait SameAttempt {
    fn is_about(&self, other: &Self) -> bool;
}

impl SameAttempt for Progress {
    fn is_about(&self, other: &Self) -> bool {
        self.write() == other.write()
    }
}
