//! `demo`: jobs that succeed, fail, retry, time out and crash their worker, watched from outside.
//!
//! The worker is a child process, because one kind aborts it. This process hands the jobs in, starts the
//! worker again whenever it dies, and at the end compares every job with what its kind says.

mod kinds;
mod summary;
mod view;
mod watch;
mod worker;
mod worker_process;

use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::args::DemoArgs;
use crate::exit::{Exit, Fault};
use crate::interrupt::Interrupt;
use crate::session::Session;

/// The shortest lease that survives a busy machine.
const LEASE_MIN: Duration = Duration::from_millis(500);

/// The store of a demo. A temporary folder goes away with it.
struct Place {
    url: String,
    folder: Option<TempDir>,
}

impl Place {
    /// The store that was typed, or a file in a temporary folder. A store that only the environment names
    /// is left alone: the demo's jobs do not belong there.
    fn choose(session: &Session) -> anyhow::Result<Self> {
        if let Some(url) = session.typed_url() {
            if url.starts_with("memory:") || url.contains(":memory:") {
                return Err(Fault::usage(
                    "the demo's worker is another process: name a store that both can open",
                )
                .into());
            }
            return Ok(Self { url: url.to_owned(), folder: None });
        }
        let folder = tempfile::Builder::new().prefix("windlass-demo-").tempdir()?;
        let url = format!("sqlite://{}", folder.path().join("demo.db").display());
        Ok(Self { url, folder: Some(folder) })
    }
}

pub(crate) async fn run(session: &mut Session, args: &DemoArgs) -> anyhow::Result<Exit> {
    if args.lease < LEASE_MIN {
        return Err(Fault::usage(format!("--lease must be at least {LEASE_MIN:?}")).into());
    }
    if args.as_worker {
        return worker::run(session.url(), args.lease).await;
    }
    let mut interrupt = Interrupt::listen()?;
    let place = Place::choose(session)?;
    let client = windlass::open(&place.url).await?;
    session.introduce(&client);

    let begun = Instant::now();
    let jobs = kinds::enqueue(&client, args.jobs).await?;
    let mut worker = worker_process::WorkerProcess::start(&place.url, args.lease)?;
    let mut view = view::View::new(session, &jobs);
    let watched = watch::run(&client, &jobs, &mut worker, &mut view, &mut interrupt).await;
    view.close();
    worker.stop().await;
    let watched = watched?;

    let summary = summary::Summary::of(&watched, &jobs, worker.crashes(), begun.elapsed());
    summary.print(session)?;
    match place.folder {
        Some(folder) if args.keep => {
            let _kept = folder.keep();
            session.note(&format!("look at the jobs with: windlass jobs list --store {}", place.url));
        }
        // The URL may hold a password.
        None => session.note("the jobs stay: look at them with windlass jobs list and the same --store"),
        Some(folder) => drop(folder),
    }
    Ok(summary.exit())
}
