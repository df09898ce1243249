//! What a store costs over HTTP: enqueues and a worker through a server of this process, beside the same on the store itself, in
//! turn.

use std::time::Instant;

use anyhow::Result;
use windlass::Client;
use windlass::server::{Access, Server};

use crate::ours::{self, Nothing};
use crate::report::{self, Report};
use crate::subject::Subject;

/// Enqueues of which the time is taken, one after the other.
const ALONE: u32 = 1_000;

/// Rates of one round.
#[derive(Default)]
struct Rates {
    bulk: Vec<f64>,
    single: Vec<f64>,
    alone: Vec<f64>,
    drain: Vec<f64>,
}

/// Measures the stores without a server of their own whose name contains this.
pub(crate) async fn run(is_quick: bool, only: Option<&str>, mut report: Report) -> Result<()> {
    let (jobs, rounds) = if is_quick { (20_000, 1) } else { (100_000, 3) };
    let is_meant = |subject: &Subject| only.is_none_or(|only| subject.name().contains(only));
    for subject in Subject::ALL.into_iter().filter(|subject| !subject.has_server()).filter(is_meant) {
        let (mut own, mut http) = (Rates::default(), Rates::default());
        for round in 1..=rounds {
            report.progress(&format!("{} over HTTP: round {round} of {rounds}", subject.name()));
            let place = subject.place()?;
            measure(&place.client().await?, jobs, &mut own).await?;
            let place = subject.place()?;
            over_http(place.client().await?, jobs, &mut http).await?;
        }
        let mut row = |work: &str, mut http: Vec<f64>, mut own: Vec<f64>| {
            report.rate(subject, work, report::median(&mut http), "the library", report::median(&mut own));
        };
        row("over HTTP: enqueue, bulk of 1,000", http.bulk, own.bulk);
        row("over HTTP: enqueue, single by 64 producers", http.single, own.single);
        row("over HTTP: enqueue, one after the other", http.alone, own.alone);
        row("over HTTP: run jobs that wait", http.drain, own.drain);
    }
    report.print();
    Ok(())
}

/// The same through a server in this process, which has the machine to share with its callers.
async fn over_http(client: Client, jobs: u32, rates: &mut Rates) -> Result<()> {
    let server = Server::new(&client).access(Access::Open);
    let serving = server.listen("127.0.0.1:0".parse()?, None).await?;
    let url = serving.url();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(serving.run(async { drop(stopped.await) }));
    measure(&windlass::open(url).await?, jobs, rates).await?;
    drop(stop);
    served.await?;
    Ok(())
}

async fn measure(client: &Client, jobs: u32, rates: &mut Rates) -> Result<()> {
    let started = Instant::now();
    ours::fill(client, jobs).await?;
    rates.bulk.push(f64::from(jobs) / started.elapsed().as_secs_f64());
    rates.drain.push(ours::drain_filled(client, jobs).await?);
    rates.single.push(ours::singles(client, jobs).await?);
    let started = Instant::now();
    for i in 0..ALONE {
        client.enqueue(Nothing { i }).await?;
    }
    rates.alone.push(f64::from(ALONE) / started.elapsed().as_secs_f64());
    Ok(())
}
