//! The clock of the machine is set by hours under load, forward and back: no worker takes living jobs for lost ones,
//! its own or those of another process, and work goes on. The file is the store whose clock is the machine's.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass::core::store::{Filter, PAGE_MAX};
use windlass::{Client, JobRecord, JobState};
use windlass_e2e::fleet::{Fleet, WorkerSettings};
use windlass_e2e::jobs::Hold;
use windlass_e2e::witness::Ledger;
use windlass_e2e::{eventually, setting};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");

/// What puts another clock before programs that are linked dynamically.
fn faketime() -> PathBuf {
    let entries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].into_iter().map(PathBuf::from).chain(entries);
    folders
        .map(|folder| folder.join("faketime/libfaketimeMT.so.1"))
        .find(|path| path.is_file())
        .expect("libfaketime is needed: cargo xtask test installs it, or apt-get install libfaketime")
}

/// Processes whose wall clock is off by what a file says. Their monotonic clock is left alone, as by any step.
struct Clocks {
    control: PathBuf,
}

impl Clocks {
    fn new(folder: &Path) -> Self {
        let clocks = Self { control: folder.join("clock") };
        clocks.set(0);
        clocks
    }

    fn set(&self, offset_seconds: i64) {
        // In one step, since a process may read at any moment.
        let fresh = self.control.with_extension("fresh");
        std::fs::write(&fresh, format!("{offset_seconds:+}\n")).unwrap();
        std::fs::rename(fresh, &self.control).unwrap();
    }

    fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("LD_PRELOAD", faketime()),
            ("FAKETIME_TIMESTAMP_FILE", self.control.clone()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }
}

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
    let clocks = Clocks::new(fleet.folder());
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
