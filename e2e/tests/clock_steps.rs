//! The clock of the machine is set by hours under load, forward and back: no worker takes living jobs for lost ones,
//! its own or those of another process, and work goes on. The file is the store whose clock is the machine's.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use windlass::core::store::{Filter, PAGE_MAX};
use windlass::{Client, JobRecord, JobState};
use windlass_e2e::clocks::Clocks;
use windlass_e2e::fleet::{Fleet, WorkerSettings};
use windlass_e2e::jobs::Hold;
use windlass_e2e::witness::Ledger;
use windlass_e2e::{eventually, setting};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");

async fn all(client: &Client) -> Vec<JobRecord> {
    let (mut jobs, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.store().list(&Filter::default(), cursor.as_ref(), PAGE_MAX).await.unwrap();
        jobs.extend(page.jobs);
        cursor = page.next;
        if cursor.is_none() {
            return jobs;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_living_job_is_taken_for_lost_when_the_clock_is_set() {
    const HOURS: i64 = 2 * 3_600;
    let fleet = Fleet::new(WORKER);
    let clocks = Clocks::new(fleet.folder(), "clock");
    // This process only looks: the clock of its store is the real one.
    let client = fleet.client().await;
    let holds = client.enqueue_all((0..4).map(|_| Hold { gate: fleet.gate() })).await.unwrap();
    let settings = |label: &str| WorkerSettings {
        label: label.into(),
        lease: Duration::from_secs(10),
        extra: ["--produce-ms", "20", "--reap-ms", "250"].map(ToOwned::to_owned).into(),
        environment: clocks.environment(),
        ..WorkerSettings::default()
    };
    let workers = ["one", "two"].map(|label| fleet.start(&settings(label)));
    let until_more_done = async |more: usize| {
        let done = || Ledger::read(&fleet.witness()).total("done");
        let goal = done() + more;
        eventually("jobs complete", async || (done() >= goal).then_some(())).await;
    };
    until_more_done(50).await;
    let mut steps = 0;
    for _ in 0..setting("WINDLASS_CLOCK_STEPS", 4).div_ceil(4) {
        for offset in [HOURS, 0, -HOURS, 0] {
            clocks.set(offset);
            steps += 1;
            // Several sweeps of both workers see the step meanwhile.
            until_more_done(150).await;
        }
    }
    for worker in ["one", "two"] {
        fleet.open_gate(worker);
    }
    for hold in &holds {
        let ended = async || hold.state().await.unwrap().filter(|state| state.is_terminal());
        eventually("the jobs that were held end", ended).await;
        hold.output().await.unwrap();
        let record = client.job(hold.id()).await.unwrap().unwrap();
        assert_eq!((record.counters.stalls, record.fence), (0, 1), "it ran through: {record:?}");
    }
    for worker in workers {
        worker.terminate();
        assert!(worker.end().await.0.success());
    }
    let jobs = all(&client).await;
    let stalled: Vec<_> = jobs.iter().filter(|job| job.counters.stalls > 0).collect();
    assert!(stalled.is_empty(), "{} of {} jobs stalled: {:?}", stalled.len(), jobs.len(), stalled[0]);
    assert!(jobs.iter().all(|job| job.state != JobState::Dead));
    println!("{steps} steps of the clock by two hours, {} jobs: 0 stalls", jobs.len());
}
