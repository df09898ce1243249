//! The ends of jobs that were lost. Those that are sent on when they die are read first, a few at a time: their payloads are
//! not at hand, and one that cannot be read holds up no other.

use windlass_core::flow::Member;
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::{Forward, JobRecord, LostJob};
use windlass_core::store::{Right, Settlement, StoreResult};
use windlass_core::{State, Store, StoreError, StoreErrorKind};

use super::{Answered, of_death, write};
use crate::flows::notes;
use crate::trace;

/// Jobs whose payloads are read at once.
const READ_MAX: usize = 16;
/// What is written at once with deaths, in bytes; a single one may have more.
const WEIGHT_MAX: usize = 8 << 20;

/// What became of jobs that were lost.
pub(crate) struct Lost {
    /// In their order; nothing for those that are left as they are.
    pub(crate) answers: Vec<Option<Answered>>,
    /// Why some are left.
    pub(crate) failed: Option<StoreError>,
}

/// Ends jobs that were lost as is told of each, with what follows it if it dies. What fails for some is done for the others.
pub(crate) async fn write_lost(
    store: &dyn Store,
    right: Right,
    jobs: &[LostJob],
    ends: &[Settlement],
) -> Lost {
    let is_sent_on = |place: &usize| {
        ends[*place].transition.state == State::Dead && jobs[*place].facts.spec.forward_dead.is_some()
    };
    let (mut sent_on, rest): (Vec<usize>, Vec<usize>) = (0..jobs.len()).partition(is_sent_on);
    let mut lost = Lost { answers: jobs.iter().map(|_| None).collect(), failed: None };
    let plain = rest.into_iter().map(|place| (place, follow_ups(&jobs[place], &ends[place], None)));
    lost.write(store, right, ends, plain.collect()).await;
    sent_on.sort_by(|one, other| jobs[*one].queue.cmp(&jobs[*other].queue));
    let queues = sent_on.chunk_by(|one, other| jobs[*one].queue == jobs[*other].queue);
    for some in queues.flat_map(|queue| queue.chunks(READ_MAX)) {
        let of: Vec<&LostJob> = some.iter().map(|place| &jobs[*place]).collect();
        let records = match whole(store, &of).await {
            Ok(records) => records,
            Err(error) => {
                lost.fail("jobs that are lost cannot be read, to be sent on", error);
                continue;
            }
        };
        let (mut part, mut weight) = (Vec::new(), 0);
        for (place, record) in some.iter().copied().zip(records) {
            let then = follow_ups(&jobs[place], &ends[place], record.as_ref());
            let own = then.as_ref().map_or(0, FollowUps::weight);
            if weight + own > WEIGHT_MAX {
                lost.write(store, right, ends, std::mem::take(&mut part)).await;
                weight = 0;
            }
            weight += own;
            part.push((place, then));
        }
        lost.write(store, right, ends, part).await;
    }
    lost
}

impl Lost {
    fn fail(&mut self, what: &str, error: StoreError) {
        tracing::warn!(%error, "{what}");
        self.failed = Some(error);
    }

    async fn write(
        &mut self,
        store: &dyn Store,
        right: Right,
        ends: &[Settlement],
        some: Vec<(usize, Option<FollowUps>)>,
    ) {
        let (places, then): (Vec<usize>, Vec<_>) = some.into_iter().unzip();
        let told = places.iter().map(|place| ends[*place].clone()).zip(then).collect();
        match write(store, right, told).await {
            Ok(answers) => {
                for (place, answer) in places.into_iter().zip(answers) {
                    self.answers[place] = Some(answer);
                }
            }
            Err(error) => self.fail("the ends of jobs that are lost cannot be written", error),
        }
    }
}

/// Jobs that are to be sent on, with their payloads, which nothing changes while they are held; nothing for one that does not
/// read, now or ever.
async fn whole(store: &dyn Store, jobs: &[&LostJob]) -> StoreResult<Vec<Option<JobRecord>>> {
    let ask = |jobs: &[&LostJob]| store.get(jobs.iter().map(|job| job.id).collect());
    let found = match ask(jobs).await {
        Err(error) if is_lasting(&error) => {
            // One of them is the cause: only that one is not sent on.
            let mut found = Vec::with_capacity(jobs.len());
            for job in jobs {
                found.push(match ask(&[*job]).await {
                    Err(error) if is_lasting(&error) => None,
                    answer => answer?.pop().flatten(),
                });
            }
            found
        }
        answer => answer?,
    };
    let readable = jobs.iter().zip(found).map(|(job, found)| {
        let found = found.filter(|found| found.unreadable.is_none());
        if found.is_none() {
            tracing::error!(
                job.id = %job.id, job.queue = %job.queue,
                "a job has died and does not read: it is not sent on to another queue"
            );
        }
        found
    });
    Ok(readable.collect())
}

/// Whether another try would be told the same.
fn is_lasting(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Fatal | StoreErrorKind::Refused)
}

/// What follows a job that was lost, if it dies.
fn follow_ups(job: &LostJob, end: &Settlement, sent_on: Option<&JobRecord>) -> Option<FollowUps> {
    let about = (job.id, &job.queue, &job.kind);
    let hook = job.facts.spec.on_dead.as_ref();
    let mut told = hook.and_then(|hook| hook.follows(about, job.fence, &end.transition));
    trace::inherit(job.facts.spec.trace.as_ref(), &mut told);
    let sent_on = sent_on
        .and_then(|record| Forward::of_record(record).follows(&job.fence.to_string(), &end.transition));
    notes::follow(Member::of(&job.facts.spec), &end.transition, of_death([told, sent_on]))
}
