//! Producers that write down what they were told, and the comparison of that with what became of it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use windlass::{Client, Ending, Error, JobId, JobRecord, JobState, StoreErrorKind};

use crate::jobs::Touch;
use crate::witness::Ledger;

/// Producers at work.
#[derive(Debug)]
pub struct Producers {
    is_over: Arc<AtomicBool>,
    in_doubt: Arc<AtomicUsize>,
    running: Vec<JoinHandle<Told>>,
}

/// What producers were told.
#[derive(Debug, Default)]
pub struct Told {
    /// Stored.
    pub accepted: Vec<JobId>,
    /// Not stored.
    pub refused: Vec<JobId>,
    /// Either.
    pub unknown: Vec<JobId>,
    /// How many were in doubt at first, those included that were handed in again.
    pub in_doubt: usize,
}

impl Producers {
    /// Starts so many, which share the clients; job by job they go through the queues.
    pub fn start(clients: &[Client], count: usize, queues: &[&'static str]) -> Self {
        let (is_over, in_doubt) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let produce = |client: &Client| {
            produce(client.clone(), queues.to_vec(), Arc::clone(&is_over), Arc::clone(&in_doubt))
        };
        let running =
            clients.iter().cycle().take(count).map(|client| tokio::spawn(produce(client))).collect();
        Self { is_over, in_doubt, running }
    }

    /// Lets them finish and answers what they were told.
    pub async fn stop(self) -> Told {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = Told::default();
        for producer in self.running {
            let told = producer.await.expect("a producer is told what it can understand");
            all.accepted.extend(told.accepted);
            all.refused.extend(told.refused);
            all.unknown.extend(told.unknown);
        }
        all.in_doubt = self.in_doubt.load(Ordering::Relaxed);
        all
    }
}

/// Enqueues until it is told to stop. Every second job whose fate is unknown is handed in again under its id, as a
/// careful caller would; the others stay unknown.
async fn produce(
    client: Client,
    queues: Vec<&'static str>,
    is_over: Arc<AtomicBool>,
    in_doubt: Arc<AtomicUsize>,
) -> Told {
    let mut told = Told::default();
    for (number, queue) in (0..).zip(queues.iter().cycle()) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let id = JobId::new();
        let mut is_in_doubt = false;
        loop {
            match client.enqueue(Touch { number }).id(id).queue(*queue).await {
                Ok(_) => told.accepted.push(id),
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Unavailable => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    if is_in_doubt {
                        continue;
                    }
                    told.refused.push(id);
                }
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Unknown => {
                    in_doubt.fetch_add(usize::from(!is_in_doubt), Ordering::Relaxed);
                    if number % 2 == 0 {
                        is_in_doubt = true;
                        continue;
                    }
                    told.unknown.push(id);
                }
                Err(error) => panic!("neither accepted, refused nor unknown: {error}"),
            }
            break;
        }
        // Producers are not to outrun the workers.
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    told
}

/// What became of jobs.
pub async fn records(client: &Client, ids: &[JobId]) -> Vec<(JobId, Option<JobRecord>)> {
    let mut found = Vec::new();
    for chunk in ids.chunks(500) {
        found.extend(
            chunk.iter().copied().zip(client.store().get(chunk.into()).await.expect("jobs can be read")),
        );
    }
    found
}

/// How often the record says that the job completed.
pub fn completions(record: &JobRecord) -> usize {
    record.attempts.iter().filter(|attempt| attempt.ending == Some(Ending::Completed)).count()
}

/// How many claims the record knows of. An attempt that was taken back and ended all the same, in time to be heard, has
/// two records.
pub fn claims(record: &JobRecord) -> u64 {
    let fences: HashSet<_> = record.attempts.iter().map(|attempt| attempt.fence).collect();
    fences.len() as u64
}

/// How often the record says that the job was lost with its worker, but for an attempt that ended all the same: its
/// end is recorded as if nothing had happened.
pub fn stalls(record: &JobRecord) -> u32 {
    let ended = record.attempts.iter().find(|attempt| attempt.ending == Some(Ending::Completed));
    let stalled = record.attempts.iter().filter(|attempt| attempt.ending == Some(Ending::Stalled));
    let lost = stalled.filter(|stalled| ended.is_none_or(|ended| ended.fence != stalled.fence));
    u32::try_from(lost.count()).expect("attempts are few")
}

/// Fails unless the job completed exactly once, each start was a claim, and each claim but the last has a recorded
/// reason.
pub fn check(id: JobId, record: &JobRecord, ledger: &Ledger) {
    assert_eq!(record.state, JobState::Completed, "job {id}: {record:?}");
    assert_eq!(completions(record), 1, "job {id}: {record:?}");
    assert_eq!(claims(record), record.fence, "job {id}: {record:?}");
    let starts = ledger.count(id, "start") as u64;
    assert!((1..=record.fence).contains(&starts), "job {id}: {starts} starts, {record:?}");
}

/// Fails unless all that was accepted is done once, nothing that was refused is there, and what is unknown is done
/// once or not there. Answers how many of the unknown are there.
pub async fn check_told(client: &Client, told: &Told, ledger: &Ledger) -> usize {
    let accepted = records(client, &told.accepted).await;
    let lost: Vec<_> = accepted.iter().filter(|(_, record)| record.is_none()).map(|(id, _)| id).collect();
    assert!(lost.is_empty(), "{} of {} accepted jobs are lost: {lost:?}", lost.len(), accepted.len());
    for (id, record) in accepted.iter().filter_map(|(id, record)| Some((id, record.as_ref()?))) {
        check(*id, record, ledger);
    }
    check_refused(client, told).await;
    let unknown = records(client, &told.unknown).await;
    let found = unknown.iter().filter_map(|(id, record)| Some((id, record.as_ref()?)));
    found.inspect(|(id, record)| check(**id, record, ledger)).count()
}

/// What a server has lost of what it had answered.
#[derive(Debug, Default)]
pub struct Losses {
    /// Jobs that were accepted.
    pub jobs: Vec<JobId>,
    /// How often a job was done once more, because its end was lost.
    pub ends: usize,
}

/// As [`check_told`] where a server may lose what it had answered last: what is there is done, and by its record once.
pub async fn count_losses(client: &Client, told: &Told, ledger: &Ledger) -> Losses {
    let mut losses = Losses::default();
    let accepted = records(client, &told.accepted).await;
    losses.jobs.extend(accepted.iter().filter(|(_, record)| record.is_none()).map(|(id, _)| *id));
    for (id, record) in accepted.iter().chain(&records(client, &told.unknown).await) {
        let Some(record) = record else { continue };
        assert_eq!((record.state, completions(record)), (JobState::Completed, 1), "job {id}: {record:?}");
        losses.ends += ledger.count(*id, "done").saturating_sub(1);
    }
    check_refused(client, told).await;
    losses
}

async fn check_refused(client: &Client, told: &Told) {
    for (id, record) in records(client, &told.refused).await {
        assert!(record.is_none(), "job {id} was refused: {record:?}");
    }
}
