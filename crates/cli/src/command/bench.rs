//! `bench`: a short measurement of a store on this machine, through the same client and worker that programs
//! use. Handlers do nothing, so what is measured is Windlass and its store.

mod measure;

use comfy_table::CellAlignment;
use serde::Serialize;
use windlass_core::store::About;

use crate::args::BenchArgs;
use crate::command::bench::measure::Measurement;
use crate::exit::{Exit, Fault};
use crate::interrupt::Interrupt;
use crate::output::{cell, json};
use crate::session::Session;

#[derive(Debug, Serialize)]
struct Answer<'a> {
    scheme: &'static str,
    durability: &'static str,
    measurements: &'a [Measurement],
}

pub(crate) async fn run(session: &mut Session, args: &BenchArgs) -> anyhow::Result<Exit> {
    let mut interrupt = Interrupt::listen()?;
    let (url, folder) = match session.typed_url() {
        Some(url) if args.yes => (url.to_owned(), None),
        Some(_) => {
            // Which one is not said: the URL may hold a password.
            let text = "measuring writes many jobs into the store that --store names: confirm with --yes, or \
                leave --store out";
            return Err(Fault::usage(text).into());
        }
        None => {
            let folder = tempfile::Builder::new().prefix("windlass-bench-").tempdir()?;
            (format!("sqlite://{}", folder.path().join("bench.db").display()), Some(folder))
        }
    };
    let client = windlass::open(&url).await?;
    session.introduce(&client);
    let measurements = tokio::select! {
        measured = measure::all(&client, args) => measured,
        () = interrupt.heard() => {
            measure::clear(&client).await?;
            return Ok(Exit::Interrupted);
        }
    };
    measure::clear(&client).await?;
    print(session, &client.about(), &measurements?)?;
    drop(folder);
    Ok(Exit::Done)
}

fn print(session: &mut Session, about: &About, measurements: &[Measurement]) -> anyhow::Result<()> {
    if session.output.is_json() {
        let durability = json::durability(about.durability);
        return Ok(session.output.json(&Answer { scheme: about.scheme, durability, measurements })?);
    }
    let mut table =
        session.output.new_table(&["MEASUREMENT", "JOBS", "SECONDS", "JOBS/S", "P50 MS", "P99 MS"]);
    let right = |text: String| cell(text).set_alignment(CellAlignment::Right);
    let millis =
        |seconds: Option<f64>| right(seconds.map(|s| format!("{:.2}", s * 1_000.0)).unwrap_or_default());
    for measurement in measurements {
        table.add_row([
            cell(&measurement.name),
            right(measurement.jobs.to_string()),
            right(format!("{:.3}", measurement.seconds)),
            right(measurement.jobs_per_second.map(|rate| format!("{rate:.0}")).unwrap_or_default()),
            millis(measurement.p50_seconds),
            millis(measurement.p99_seconds),
        ]);
    }
    Ok(session.output.table(table)?)
}
