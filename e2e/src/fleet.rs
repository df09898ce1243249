//! Worker processes, and what can be done to them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use windlass::Client;
use windlass::queue::QueueConfig;

/// A store, a witness folder and the workers on them. The folder, and with it a store that is a file, goes when it
/// is dropped.
#[derive(Debug)]
pub struct Fleet {
    folder: TempDir,
    worker_program: PathBuf,
    url: String,
}

/// How a worker process is started.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// The label its witness and its lease carry.
    pub label: String,
    /// How many workers run in the process.
    pub workers: u32,
    /// Slots of each worker.
    pub concurrency: u32,
    /// The lease of each worker.
    pub lease: Duration,
    /// Runtime threads of the process.
    pub threads: u32,
    /// Options of the command line beyond these.
    pub extra: Vec<String>,
    /// Variables of its environment beyond those of this process.
    pub environment: Vec<(&'static str, PathBuf)>,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            label: "worker".into(),
            workers: 1,
            concurrency: 16,
            lease: Duration::from_secs(30),
            threads: 2,
            extra: Vec::new(),
            environment: Vec::new(),
        }
    }
}

impl Fleet {
    /// An empty store in a file. `worker_program` is the e2e worker's binary.
    pub fn new(worker_program: &str) -> Self {
        let mut fleet = Self::on(worker_program, String::new());
        fleet.url = format!("sqlite://{}", fleet.folder.path().join("jobs.db").display());
        fleet
    }

    /// The store that a URL names.
    pub fn on(worker_program: &str, url: impl Into<String>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["witness", "gate"] {
            std::fs::create_dir(folder.path().join(name)).expect("a new folder");
        }
        Self { folder, worker_program: worker_program.into(), url: url.into() }
    }

    /// The store's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where witnesses write.
    pub fn witness(&self) -> PathBuf {
        self.folder.path().join("witness")
    }

    /// Where gates are opened.
    pub fn gate(&self) -> PathBuf {
        self.folder.path().join("gate")
    }

    /// Lets the held jobs of workers with this label end.
    pub fn open_gate(&self, label: &str) {
        std::fs::write(self.gate().join(label), "").expect("a writable gate folder");
    }

    /// A client on the store.
    pub async fn client(&self) -> Client {
        windlass::open(&self.url).await.expect("the store opens")
    }

    /// Starts a worker process.
    pub fn start(&self, settings: &WorkerSettings) -> WorkerProcess {
        let log = self.folder.path().join(format!("{}.log", settings.label));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        let child = Command::new(&self.worker_program)
            .args(["--store", &self.url, "--label", &settings.label])
            .args(["--workers", &settings.workers.to_string(), "--threads", &settings.threads.to_string()])
            .args(["--concurrency", &settings.concurrency.to_string()])
            .args(["--lease-ms", &settings.lease.as_millis().to_string()])
            .arg("--witness")
            .arg(self.witness())
            .args(&settings.extra)
            .envs(settings.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone().expect("a second handle")))
            .stderr(Stdio::from(log))
            .spawn()
            .expect("the worker program starts");
        WorkerProcess { child }
    }

    /// Stops a worker in its tracks, but not in the middle of a write: a process that is stopped there keeps
    /// the file's write lock, and no other process could go on before it does.
    pub async fn pause(&self, worker: &WorkerProcess, client: &Client) {
        const QUICK: Duration = Duration::from_secs(1);
        crate::eventually("the worker is stopped between two writes", async || {
            worker.signal(Signal::STOP);
            // A thread that has not stopped yet may still take the lock, after the write below.
            if !worker.is_stopped() {
                return None;
            }
            let write = client.define_queue("e2e.writable", QueueConfig::default());
            if let Ok(Ok(_)) = tokio::time::timeout(QUICK, write).await {
                return Some(());
            }
            worker.resume();
            None
        })
        .await;
    }

    /// What a worker with this label has logged, for the text of a failure.
    pub fn log(&self, label: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("{label}.log"))).unwrap_or_default()
    }

    /// The folder of everything.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// One worker process; killed when it is dropped.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
}

impl WorkerProcess {
    /// Whether all of its threads have stopped; where that cannot be seen, yes.
    fn is_stopped(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else { return true };
        let is_stopped = |thread: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in parentheses.
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        threads.flatten().all(is_stopped)
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(id, signal).expect("the process is ours and not yet reaped");
    }

    /// Kills it without warning.
    pub fn kill(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("it can be reaped");
    }

    /// Lets it go on after [`Fleet::pause`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Whether it has ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it can be asked")
    }

    /// Waits for its end and answers how and after how long.
    pub async fn end(mut self) -> (ExitStatus, Duration) {
        let started = Instant::now();
        let status = crate::eventually("the worker process ends", async || self.ended()).await;
        (status, started.elapsed())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
