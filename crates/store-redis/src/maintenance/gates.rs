//! Comparing gates with the jobs of a queue that uses keys. Gates move in the writes that move the jobs, so that they agree; what a
//! server has lost, or a hand has changed, is found here and mended, and said.

use windlass_core::Name;
use windlass_core::store::Promotion;

use crate::error::Fault;
use crate::scripts::SWEEP_GATES;
use crate::session::Session;
use crate::{Tools, answer};

/// How many parts of a queue one round compares; the next one goes on from there.
const PARTS_MAX: usize = 8;

/// What did not agree in one part.
struct Mended {
    /// Ready jobs that stood behind no gate.
    jobs: u32,
    /// Keys whose running jobs were counted wrongly.
    counts: u32,
    /// Gates that were closed for no reason.
    closed: u32,
    is_last: bool,
}

/// Compares parts of a queue. What fails is tried again with a later round.
pub(super) async fn compare(tools: &Tools, session: &Session, queue: &Name) {
    for _ in 0..PARTS_MAX {
        match compare_part(tools, session, queue).await {
            Ok(mended) => {
                tell(tools, queue, &mended);
                if mended.is_last {
                    return;
                }
            }
            Err(fault) => {
                tracing::debug!(?fault, %queue, "gates were not compared with jobs");
                return;
            }
        }
    }
}

async fn compare_part(tools: &Tools, session: &Session, queue: &Name) -> Result<Mended, Fault> {
    let said = session.run(&SWEEP_GATES, tools.keys.queue(queue).all(), vec![tools.clock()]).await?;
    let said: Vec<_> = answer::array(said)?.into_iter().map(answer::integer).collect::<Result<_, _>>()?;
    let [jobs, counts, closed, is_last] = said[..] else {
        return Err(Fault::Corrupt("gates were compared without an answer".to_owned()));
    };
    Ok(Mended { jobs: jobs as u32, counts: counts as u32, closed: closed as u32, is_last: is_last != 0 })
}

fn tell(tools: &Tools, queue: &Name, mended: &Mended) {
    let Mended { jobs, counts, closed, .. } = *mended;
    if jobs + counts + closed > 0 {
        tracing::warn!(
            %queue, jobs, counts, closed,
            "gates did not agree with jobs and were mended: ready jobs without a gate, wrong counts of running jobs, gates \
             that were closed for no reason"
        );
    }
    if jobs + closed > 0 {
        tools.ring(Promotion { promoted: jobs + closed, expired: 0 }.rings(queue));
    }
}
