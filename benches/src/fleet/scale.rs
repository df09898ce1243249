//! What idle workers, queues, kinds and waiting callers cost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use windlass::Client;
use windlass::Options;
use windlass::core::job::NewJob;
use windlass::core::store::{ClaimAnswer, ClaimRequest, NewLease, QueueShare};
use windlass::core::{CallId, Fence, LeaseId, Name};
use windlass::queue::QueueConfig;

use super::Extent;
use super::counters::Counted;
use super::ground::{Ground, Kind, Place};
use super::latency::paced;
use super::member::{Beat, queue_name};
use super::processes::Processes;
use super::table::{Bound, Table};
use crate::report::{median, percentile};

/// Jobs a second beside idle workers.
const RATE: u32 = 10;
/// Until sessions have reported what they counted, and processes have come to rest.
const SETTLE: Duration = Duration::from_secs(4);

/// 50 and 200 idle processes with one worker each: what they cost by themselves, and what a job costs beside them.
pub(super) async fn idle_workers(ground: &Ground, extent: Extent, table: &mut Table) -> Result<()> {
    let (name, place) = (ground.kind.name(), ground.place()?);
    let (what, most) = match ground.kind {
        Kind::Redis => ("scripts", 8.0),
        Kind::Postgres | Kind::Sqlite => ("claims", 3.0),
    };
    let client = place.client().await?;
    let own = ground.connections();
    let (mut processes, mut size) = (Processes::new(), 0);
    let mut few = f64::INFINITY;
    for fleet in [50_u32, 200] {
        table.progress(name, &format!("{fleet} idle workers"));
        processes.add((fleet - size) as usize, &place.url, &[])?;
        size = fleet;
        at_rest(ground).await;
        let idle = count(ground, extent.window).await;
        let each = ground.connections().saturating_sub(own) as f64 / f64::from(fleet);
        let is_asked = fleet == 50 && ground.kind == Kind::Postgres;
        let wanted = |most| if is_asked { Bound::AtMost(most) } else { Bound::Shown };
        let scene = |what: &str| format!("{fleet} idle processes, {what}");
        table.add(
            name,
            &scene("statements a second, each"),
            idle.statements / f64::from(fleet),
            "",
            wanted(0.5),
        );
        table.add(name, &scene("connections, each"), each, "", wanted(3.0));
        let (busy, starts) = beside(ground, &client, &processes, extent).await?;
        let per_job = (busy.calls - idle.calls) / f64::from(RATE);
        let wanted = Bound::AtMost(if fleet == 50 { most } else { few.max(1.0) * 1.1 });
        let scene = |what: &str| format!("{fleet} idle workers, {RATE} jobs a second, {what}");
        table.add(name, &scene(&format!("{what} per job")), per_job, "", wanted);
        let per_job = (busy.statements - idle.statements) / f64::from(RATE);
        let unit = if ground.kind == Kind::Postgres { "transactions" } else { "commands" };
        table.add(name, &scene(&format!("{unit} per job")), per_job, "", Bound::Shown);
        table.time(name, &scene("start p50"), percentile(&starts, 50), Bound::Shown);
        table.time(name, &scene("start p99"), percentile(&starts, 99), Bound::Shown);
        few = few.min((busy.calls - idle.calls) / f64::from(RATE));
    }
    Ok(())
}

/// Waits until connections that were needed for the start are closed, for as long as that may take.
async fn at_rest(ground: &Ground) {
    // Idle connections are closed after twenty seconds.
    const LOOK: Duration = Duration::from_secs(25);
    let until = Instant::now() + Duration::from_secs(80);
    let mut before = u64::MAX;
    while Instant::now() < until {
        let now = ground.connections();
        if now >= before {
            return;
        }
        before = now;
        tokio::time::sleep(LOOK).await;
    }
}

/// What the server does per second in a while without jobs.
async fn count(ground: &Ground, window: Duration) -> Counted {
    tokio::time::sleep(SETTLE).await;
    let (before, began) = (ground.counted(), Instant::now());
    tokio::time::sleep(window).await;
    ground.counted().rate(before, began.elapsed())
}

/// What the server does per second while jobs come, and when they start.
async fn beside(
    ground: &Ground,
    client: &Client,
    processes: &Processes,
    extent: Extent,
) -> Result<(Counted, Vec<Duration>)> {
    let extent = Extent { starts_max: u32::MAX, starts_time: extent.window, ..extent };
    // The first ones find processes at rest, and connections to be made.
    paced(client, processes, RATE, Extent { starts_time: Duration::from_secs(2), ..extent }).await?;
    let (before, began) = (ground.counted(), Instant::now());
    let starts = paced(client, processes, RATE, extent).await?;
    Ok((ground.counted().rate(before, began.elapsed()), starts))
}

/// 100 callers that wait for outputs of jobs that do not end, beside others that do.
pub(super) async fn waiters(ground: &Ground, extent: Extent, table: &mut Table) -> Result<()> {
    const WAITERS: usize = 100;
    let (name, place) = (ground.kind.name(), ground.place()?);
    let client = place.client().await?;
    let mut processes = Processes::new();
    processes.add(1, &place.url, &[])?;
    table.progress(name, "100 callers that wait for outputs");
    let (without, _) = beside(ground, &client, &processes, extent).await?;
    let held = client.enqueue_all((0..WAITERS).map(|_| Beat::now())).queue("not-served").await?;
    let waiting: Vec<_> =
        held.into_iter().map(|handle| tokio::spawn(async move { handle.output().await.map(drop) })).collect();
    let (with, _) = beside(ground, &client, &processes, extent).await?;
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    let scene = "100 waiters beside 10 jobs a second, look-ups a second";
    table.add(name, scene, with.looks - without.looks, "", Bound::AtMost(50.0));
    Ok(())
}

/// A worker on 1,000 queues, and 10,000 queues that hold nothing.
pub(super) async fn queues(ground: &Ground, extent: Extent, table: &mut Table) -> Result<()> {
    let name = ground.kind.name();
    let mut p50 = Vec::new();
    for queues in [1_u32, 1_000] {
        table.progress(name, &format!("a worker on {queues} queues"));
        let place = ground.place()?;
        let client = place.client().await?;
        let mut processes = Processes::new();
        processes.add(1, &place.url, &["--queues", &queues.to_string()])?;
        tokio::time::sleep(SETTLE).await;
        let mut starts = Vec::new();
        for number in 0..100_u32 {
            let queue = queue_name(number * 7 % queues);
            client.enqueue(Beat::now()).queue(queue).await?;
            starts.extend(processes.starts(1, Duration::from_secs(30))?);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        p50.push(percentile(&starts, 50));
        table.time(
            name,
            &format!("a worker on {queues} queues, start p50"),
            p50[p50.len() - 1],
            Bound::Shown,
        );
    }
    let ratio = p50[1].as_secs_f64() / p50[0].as_secs_f64();
    table.add(name, "1,000 queues, start p50 beside one queue", ratio, "x", Bound::AtMost(3.0));
    empty_queues(ground, extent, table).await
}

async fn empty_queues(ground: &Ground, extent: Extent, table: &mut Table) -> Result<()> {
    const QUEUES: u32 = 10_000;
    let (name, place) = (ground.kind.name(), ground.place()?);
    table.progress(name, "10,000 empty queues");
    let client = place.client().await?;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..QUEUES {
        let client = client.clone();
        calls.spawn(
            async move { client.define_queue(format!("empty-{number}"), QueueConfig::default()).await },
        );
        if calls.len() >= 64
            && let Some(called) = calls.join_next().await
        {
            called??;
        }
    }
    while let Some(called) = calls.join_next().await {
        called??;
    }
    let alone = count(ground, extent.window / 2).await;
    let mut processes = Processes::new();
    processes.add(1, &place.url, &[])?;
    let with = count(ground, extent.window).await;
    let (what, figure, wanted) = match ground.kind {
        Kind::Redis => ("scripts", with.calls - alone.calls, Bound::AtMost(20.0)),
        _ => ("statements", with.statements - alone.statements, Bound::Shown),
    };
    table.add(name, &format!("10,000 empty queues, {what} a second by an idle worker"), figure, "", wanted);
    Ok(())
}

/// A claim of 500 jobs of 1,000 kinds in one queue, beside one of 500 jobs of one kind.
pub(super) async fn kinds(ground: &Ground, extent: Extent, table: &mut Table) -> Result<()> {
    let (name, place) = (ground.kind.name(), ground.place()?);
    table.progress(name, "1,000 kinds in one queue");
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for _ in 0..extent.rounds {
        one.push(claim(&place, 1).await?);
        many.push(claim(&place, 1_000).await?);
    }
    let (one, many) = (median(&mut one), median(&mut many));
    table.add(name, "claim of 500 of one kind", one * 1e3, " ms", Bound::Shown);
    table.add(name, "claim of 500 of 1,000 kinds", many * 1e3, " ms", Bound::Shown);
    table.add(name, "1,000 kinds, claim of 500 beside one kind", many / one, "x", Bound::AtMost(2.0));
    Ok(())
}

/// Seconds that a claim of 500 takes with this number of kinds.
async fn claim(place: &Place, kinds: u32) -> Result<f64> {
    let client = place.client().await?;
    let (store, queue) = (client.store(), Name::new(format!("kinds-{}", uuid::Uuid::new_v4().simple()))?);
    let names =
        (0..kinds).map(|number| Name::new(format!("kind-{number}"))).collect::<Result<Vec<_>, _>>()?;
    let job = |number: u32| {
        let kind = &names[(number % kinds) as usize];
        NewJob::new(kind, "null", Options::new().queue(queue.as_str()))
    };
    let jobs = (0..2_000).map(job).collect::<Result<Vec<_>, _>>()?;
    for some in jobs.chunks(500) {
        store.enqueue_once(CallId::new(), some.into()).await?;
    }
    let lease = LeaseId::new();
    let (queues, ttl) = (vec![queue.clone()], Duration::from_secs(60));
    store.open(&NewLease { id: lease, worker: "claimer".into(), ttl, queues, kinds: names.clone() }).await?;
    let request = |limit| ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: vec![QueueShare { queue: queue.clone(), limit }],
        kinds: names.clone(),
        limit,
        at_once: limit,
        bytes: 16 << 20,
    };
    // The first claim finds scripts and plans to be made.
    store.claim(request(10)).await?;
    let began = Instant::now();
    let answer = store.claim(request(500)).await?;
    let took = began.elapsed().as_secs_f64();
    let ClaimAnswer::Jobs { jobs, .. } = answer else { anyhow::bail!("the lease is lost") };
    (jobs.len() == 500).then_some(took).with_context(|| format!("{} jobs of 500 were claimed", jobs.len()))
}
