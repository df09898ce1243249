//! A disk that is full: what was accepted goes on, more is refused clearly, and all is well when there is room again.
//!
//! The disk is a small file system of the test's own. Where the machine does not let one be mounted, the same path
//! is seen by the unit tests of the writer only.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use windlass_core::store::{Jobs, Leases, Renewal, Settled};
use windlass_core::{ClaimedJob, State, StoreErrorKind};

use super::{claim, completed, job, lease, open};

const DISK: &str = "WINDLASS_TEST_SMALL_DISK";
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs one test of this program again, with a small disk mounted that only it can see. False where that is not
/// permitted here.
fn on_a_small_disk(test: &str) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let mount = |namespaces: &[&str], then: &str| {
        let script = format!("mount -t tmpfs -o size=24m tmpfs \"$1\" && {then}");
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", &script, "sh"]).arg(directory.path());
        command.arg(std::env::current_exe().unwrap()).arg(test).env(DISK, directory.path());
        command
    };
    for namespaces in [&["--mount"][..], &["--user", "--map-root-user", "--mount"]] {
        let mut probe = mount(namespaces, "true");
        if probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            let ran = mount(namespaces, "exec \"$2\" --exact \"$3\" --nocapture").output().unwrap();
            let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
            assert!(ran.status.success() && said.contains("1 passed"), "{said}");
            return true;
        }
    }
    false
}

fn disk() -> Option<PathBuf> {
    std::env::var_os(DISK).map(PathBuf::from)
}

/// Takes whatever room is left, as another program would.
fn fill(path: &Path) -> PathBuf {
    let ballast = path.join("ballast");
    let mut file = File::create(&ballast).unwrap();
    while file.write_all(&[7; 4_096]).is_ok() {}
    ballast
}

#[tokio::test]
async fn what_was_accepted_goes_on_and_more_is_refused_until_there_is_room() {
    let Some(disk) = disk() else {
        if !on_a_small_disk("full::what_was_accepted_goes_on_and_more_is_refused_until_there_is_room") {
            eprintln!("no file system can be mounted here");
        }
        return;
    };
    let store = open(&disk.join("jobs.db")).await;
    let lease = lease(&store).await;
    let mut accepted = 0;
    let full = loop {
        let jobs: Vec<_> = (0..50).map(|_| job("x".repeat(900))).collect();
        match store.enqueue(jobs.as_slice().into()).await {
            Ok(_) => accepted += jobs.len(),
            Err(error) => break error,
        }
    };
    assert!(accepted > 1_000, "only {accepted} jobs fit");
    assert_eq!(full.kind(), StoreErrorKind::Unavailable);
    assert!(full.to_string().contains("the disk is full"), "{full}");

    // Another program takes what the log gave back; the reserve is not for it to take before the worker had its turn.
    let renewed = store.renew(lease, Duration::from_secs(600), 10).await.unwrap();
    assert!(matches!(renewed, Renewal::Renewed { .. }));
    let mut done = 0;
    let mut settle = async |jobs: Vec<ClaimedJob>| {
        let answers = store.settle(completed(&jobs).into()).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == Settled::Applied(State::Completed)));
        done += jobs.len();
    };
    while let jobs = claim(&store, lease, 100).await
        && !jobs.is_empty()
    {
        settle(jobs).await;
    }
    assert_eq!(done, accepted, "every accepted job was worked off on the full disk");
}

#[tokio::test]
async fn enqueues_are_taken_again_when_there_is_room() {
    let Some(disk) = disk() else {
        on_a_small_disk("full::enqueues_are_taken_again_when_there_is_room");
        return;
    };
    let store = open(&disk.join("jobs.db")).await;
    let lease = lease(&store).await;
    store.enqueue([job("first")].into()).await.unwrap();
    let ballast = fill(&disk);
    while store.enqueue([job("x".repeat(900))].into()).await.is_ok() {}
    let claimed = claim(&store, lease, 1).await;
    store.settle(completed(&claimed).into()).await.unwrap();
    assert_eq!(store.enqueue([job("y")].into()).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    fs::remove_file(ballast).unwrap();
    let began = Instant::now();
    while let Err(error) = store.enqueue([job("z")].into()).await {
        assert!(began.elapsed() < PATIENCE, "{error}");
        tokio::task::yield_now().await;
    }
}
