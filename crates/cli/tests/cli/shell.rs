//! A folder with a store in it, the command run in that folder, and a worker's hand for what the command line
//! cannot do.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use windlass_core::outcome::Failure;
use windlass_core::store::{Begin, ClaimAnswer, ClaimRequest, NewLease, QueueShare, Settlement};
use windlass_core::{ClaimedJob, LeaseId, Name, Outcome, Store, judge};

/// A folder of its own.
pub(crate) struct Shell {
    folder: TempDir,
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command, ready to be run in this folder without anything from the outside.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(args).current_dir(self.folder()).stdin(Stdio::null());
        for name in ["WINDLASS_STORE", "NO_COLOR", "CLICOLOR_FORCE", "RUST_LOG"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        finish(&mut self.command(args))
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The command may refuse to read all of it.
        let _ = child.stdin.take().unwrap().write_all(input);
        ran(child.wait_with_output().unwrap())
    }

    /// Hands in a job and answers its id.
    pub(crate) fn enqueue(&self, args: &[&str]) -> String {
        let ran = self.run(["enqueue", "--json"].iter().chain(args)).ok();
        ran.json()["id"].as_str().unwrap().to_owned()
    }

    /// The job as `jobs show --json` has it.
    pub(crate) fn show(&self, id: &str) -> Value {
        self.run(["jobs", "show", "--json", id]).ok().json()
    }

    /// Claims one job of the kind and ends it as told; nothing leaves it running.
    pub(crate) fn attempt(&self, kind: &str, outcome: Option<Outcome>) -> ClaimedJob {
        let url = format!("sqlite://{}", self.path("windlass.db").display());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Arc::clone(windlass::open(&url).await.unwrap().store());
            let job = claim(&store, kind).await;
            if let Some(outcome) = outcome {
                let transition = judge(&job.facts, outcome, 0.5);
                let settlement =
                    Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition };
                store.settle([settlement].into()).await.unwrap();
            }
            job
        })
    }

    /// Hands in so many jobs of the kind, all of which die of this error.
    pub(crate) fn bury(&self, kind: &str, count: u32, error: &str) {
        self.run(["enqueue", kind, "--count", &count.to_string()]).ok();
        let url = format!("sqlite://{}", self.path("windlass.db").display());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Arc::clone(windlass::open(&url).await.unwrap().store());
            let settled = |job: ClaimedJob| {
                let outcome = Outcome::Fail { failure: Failure::error(error) };
                let transition = judge(&job.facts, outcome, 0.5);
                Settlement { queue: job.queue, id: job.id, fence: job.fence, transition }
            };
            let jobs = claim_some(&store, kind, count).await;
            assert_eq!(jobs.len(), count as usize);
            store.settle(jobs.into_iter().map(settled).collect::<Vec<_>>().into()).await.unwrap();
        });
    }

    /// Claims one job of the kind and lets it be taken back, as if its worker had died while its handler ran.
    pub(crate) fn stall(&self, kind: &str) {
        let url = format!("sqlite://{}", self.path("windlass.db").display());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Arc::clone(windlass::open(&url).await.unwrap().store());
            let job = claim(&store, kind).await;
            store.begin([Begin { queue: job.queue, id: job.id, fence: job.fence }].into()).await.unwrap();
            for lease in store.leases(9).await.unwrap() {
                store.close(lease.id).await.unwrap();
            }
            let settlements = store.lost(9).await.unwrap().into_iter().map(|lost| {
                let transition = judge(&lost.facts, lost.outcome(), 0.5);
                Settlement { queue: lost.queue, id: lost.id, fence: lost.fence, transition }
            });
            store.reap(settlements.collect::<Vec<_>>().into()).await.unwrap();
        });
    }

    /// Claims one job of the kind and fails it for good with this text.
    pub(crate) fn kill(&self, kind: &str, error: &str) {
        self.attempt(kind, Some(Outcome::Fail { failure: Failure::error(error) }));
    }
}

async fn claim(store: &Arc<dyn Store>, kind: &str) -> ClaimedJob {
    claim_some(store, kind, 1).await.into_iter().next().expect("a job of that kind is ready")
}

async fn claim_some(store: &Arc<dyn Store>, kind: &str, limit: u32) -> Vec<ClaimedJob> {
    let kind = Name::new(kind).unwrap();
    let queue = Name::new("default").unwrap();
    let lease = LeaseId::new();
    let ttl = Duration::from_secs(600);
    let new = NewLease {
        id: lease,
        worker: "hand\u{1b}[2J".to_owned(),
        ttl,
        queues: vec![queue.clone()],
        kinds: Vec::new(),
    };
    store.open(&new).await.unwrap();
    let queues = vec![QueueShare { queue, limit }];
    let request = ClaimRequest {
        lease,
        nonce: windlass_core::Fence::nonce(),
        queues,
        kinds: vec![kind],
        limit,
        at_once: limit,
        bytes: usize::MAX,
    };
    match store.claim(request.clone()).await.unwrap() {
        ClaimAnswer::Jobs { jobs, .. } => jobs,
        ClaimAnswer::LeaseLost => panic!("the lease was lost"),
    }
}

pub(crate) fn finish(command: &mut Command) -> Ran {
    ran(command.output().unwrap())
}

fn ran(output: std::process::Output) -> Ran {
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ran {
    /// It succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.exits(0)
    }

    /// It ended with this exit code, and no code path ended in a panic.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// It said this on stderr.
    #[track_caller]
    pub(crate) fn complains(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no {text:?} in {:?}", self.stderr);
        self
    }

    /// It printed this.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "no {text:?} in {}", self.stdout);
        self
    }

    /// Its only line, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "one document is one line: {}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Its lines, each as JSON.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
