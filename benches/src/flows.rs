//! What flows cost: parents with ten children beside as many plain jobs, a graph of layers of which each job waits for the whole
//! layer before, and one job that waits for very many. The worker keeps finished jobs and runs until every flow is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use windlass::core::Name;
use windlass::flow::FlowHandle;
use windlass::{Client, Running};

use crate::counted::Counted;
use crate::ours::{self, Nothing};
use crate::report::{self, Report};
use crate::subject::{Place, Subject};

/// Flows are submitted by so many at once, each awaiting each of its own.
const PRODUCERS: u32 = 8;
const CHILDREN: u32 = 10;
/// With the parent.
const JOBS: u32 = CHILDREN + 1;
/// How long to wait between two looks whether a flow is left.
const LOOK: Duration = Duration::from_millis(1);

/// How much to measure.
#[derive(Debug, Clone, Copy)]
struct Scale {
    flows: u32,
    rounds: u32,
    layers: u32,
    width: u32,
    /// Children of one job, fewer and more.
    fans: [u32; 2],
}

impl Scale {
    fn new(is_quick: bool) -> Self {
        match is_quick {
            true => Self { flows: 400, rounds: 1, layers: 10, width: 50, fans: [1_000, 10_000] },
            // A flow may have 100,000 jobs, and one of these waits for the others.
            false => Self { flows: 2_000, rounds: 3, layers: 20, width: 50, fans: [10_000, 99_999] },
        }
    }
}

/// How long it took to submit, and from then until all was over.
#[derive(Debug, Clone, Copy)]
struct Spent {
    submit: Duration,
    run: Duration,
}

impl Spent {
    fn whole(self) -> Duration {
        self.submit + self.run
    }

    /// The middle of each.
    fn median(all: &[Self]) -> Self {
        let middle = |part: fn(&Self) -> Duration| {
            let times: Vec<Duration> = all.iter().map(part).collect();
            report::percentile(&times, 50)
        };
        Self { submit: middle(|spent| spent.submit), run: middle(|spent| spent.run) }
    }
}

/// Measures the stores whose name contains this, as far as they keep records.
pub(crate) async fn run(is_quick: bool, only: Option<&str>, mut report: Report) -> Result<()> {
    let scale = Scale::new(is_quick);
    let is_meant = |subject: &Subject| only.is_none_or(|only| subject.name().contains(only));
    for subject in Subject::ALL.into_iter().filter(is_meant) {
        if subject.place()?.client().await?.store().records().is_none() {
            report.progress(&format!("{}: it keeps no records", subject.name()));
            continue;
        }
        parents(subject, scale, &mut report).await?;
        calls(subject, scale, &mut report).await?;
        layers(subject, scale, &mut report).await?;
        fans(subject, scale, &mut report).await?;
    }
    report.print();
    Ok(())
}

/// Parents with ten children, beside as many jobs that nothing waits for, as many in a call.
async fn parents(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    let (mut flows, mut plain) = (vec![], vec![]);
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: flows, round {round} of {}", subject.name(), scale.rounds));
        plain.push(many(&subject.place()?.client().await?, scale.flows, Submitted::Plain).await?);
        flows.push(many(&subject.place()?.client().await?, scale.flows, Submitted::Flows).await?);
    }
    let (flows, plain) = (Spent::median(&flows), Spent::median(&plain));
    let rate = |time: Duration| f64::from(scale.flows * JOBS) / time.as_secs_f64();
    let mut row = |work: &str, part: fn(Spent) -> Duration, beside: &str| {
        report.rate(subject, work, rate(part(flows)), beside, rate(part(plain)));
    };
    row("submit flows of 11 jobs, 8 producers: jobs", |spent| spent.submit, "11 plain jobs a call");
    row("run them until all are over: jobs", |spent| spent.run, "run the plain jobs");
    row("both: jobs", Spent::whole, "both");
    let whole = f64::from(scale.flows) / flows.whole().as_secs_f64();
    report.figure(subject, "both: flows", format!("{}/s", report::whole(whole)));
    Ok(())
}

/// What is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Submitted {
    Flows,
    Plain,
}

/// Submits so many flows, or as many jobs in as many calls, and runs them.
async fn many(client: &Client, flows: u32, what: Submitted) -> Result<Spent> {
    let share = flows / PRODUCERS;
    let began = Instant::now();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..share {
                    match what {
                        Submitted::Flows => drop(fan(&client, CHILDREN).await?),
                        Submitted::Plain => drop(client.enqueue_all((0..JOBS).map(|i| Nothing { i })).await?),
                    }
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for producer in producers {
        producer.await??;
    }
    let submit = began.elapsed();
    Ok(Spent { submit, run: work(client, share * PRODUCERS * JOBS).await? })
}

/// Submits a flow of one job that waits for so many others.
async fn fan(client: &Client, children: u32) -> Result<FlowHandle> {
    let mut flow = client.flow("bench");
    let children = flow.add_all((0..children).map(|i| Nothing { i }));
    flow.add_after(&children, Nothing { i: 0 });
    Ok(flow.submit().await?)
}

/// Runs jobs until the last is completed and no flow is left.
async fn work(client: &Client, jobs: u32) -> Result<Duration> {
    let (worker, mut done) = ours::worker(client, jobs);
    let began = Instant::now();
    let running: Running = worker.start()?;
    done.recv().await;
    let home = Name::new("default")?;
    while !client.open_flows(&home, None, 1).await?.flows.is_empty() {
        tokio::time::sleep(LOOK).await;
    }
    running.stop().await;
    Ok(began.elapsed())
}

/// How often the store was called for a flow of that kind, of the calls that flows make or add to.
async fn calls(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    let place = subject.place()?;
    let store = Counted::around(Arc::clone(place.client().await?.store()));
    let client = Client::new(Arc::clone(&store) as _);
    many(&client, scale.flows, Submitted::Flows).await?;
    let per_flow: Vec<String> = store
        .calls()
        .into_iter()
        .map(|(name, calls)| format!("{name} {:.2}", calls as f64 / f64::from(scale.flows)))
        .collect();
    report.figure(subject, &format!("calls per flow: {}", per_flow.join(", ")), String::new());
    Ok(())
}

/// A graph of layers.
async fn layers(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    let Scale { layers, width, .. } = scale;
    let mut spent = Vec::new();
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: layers, round {round} of {}", subject.name(), scale.rounds));
        let place: Place = subject.place()?;
        let client = place.client().await?;
        let began = Instant::now();
        let mut flow = client.flow("bench");
        let mut before = flow.add_all((0..width).map(|i| Nothing { i }));
        for _ in 1..layers {
            before = (0..width).map(|i| flow.add_after(&before, Nothing { i })).collect();
        }
        let flow = flow.submit().await?;
        let submit = began.elapsed();
        spent.push(Spent { submit, run: work(&client, layers * width).await? });
        ensure!(flow.view().await?.tally.is_success(), "not all of the layers completed");
    }
    let spent = Spent::median(&spent);
    let edges = f64::from((layers - 1) * width * width) / spent.run.as_secs_f64();
    let work = format!("{layers} layers of {width} jobs, each after all of the layer before: edges");
    report.figure(subject, &work, format!("{}/s", report::whole(edges)));
    let each = spent.run / layers;
    report.figure(subject, "time per layer", format!("{:.1} ms", each.as_secs_f64() * 1e3));
    Ok(())
}

/// One job that waits for many, and for ten times as many.
async fn fans(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    let mut per_child = Vec::new();
    for children in scale.fans {
        report.progress(&format!("{}: one job after {children}", subject.name()));
        let place = subject.place()?;
        let client = place.client().await?;
        let began = Instant::now();
        let flow = fan(&client, children).await?;
        let submit = began.elapsed();
        let spent = Spent { submit, run: work(&client, children + 1).await? };
        ensure!(flow.view().await?.tally.is_success(), "not all of the children completed");
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let work =
            format!("one job after {children}: submit {}, run {}", seconds(spent.submit), seconds(spent.run));
        report.figure(subject, &work, seconds(spent.whole()));
        per_child.push(spent.whole() / children);
    }
    report.latency_beside(subject, "time per child, of the more", per_child[1], "of the fewer", per_child[0]);
    Ok(())
}
