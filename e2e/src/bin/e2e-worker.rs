//! The worker process of the whole-system tests: serves every e2e kind until it is told or made to stop.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use windlass::core::clock::Timestamp;
use windlass::worker::DeadFilter;
use windlass::{Client, Worker};
use windlass_e2e::witness::Witness;
use windlass_e2e::{flows, jobs, repeats};

struct Arguments {
    store: String,
    label: String,
    witness: PathBuf,
    /// The library's own choice if there are none.
    queues: Vec<String>,
    workers: u32,
    threads: usize,
    concurrency: usize,
    lease: Duration,
    poll: Duration,
    /// A quarter of the lease if it is not given.
    reap: Option<Duration>,
    wakeups: windlass::worker::Wakeups,
    drain: Duration,
    /// How often it hands in a job of its own.
    produce: Option<Duration>,
    /// Sends back what died before this instant, in microseconds, instead of serving.
    replay: Option<i64>,
}

/// How many dead jobs a second are sent back.
const REPLAYED: u32 = 2_000;

fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::read()?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(arguments.threads)
        .enable_all()
        .build()?
        .block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> Result<()> {
    let witness = Witness::open(&arguments.witness, &arguments.label);
    let client = windlass::open(&arguments.store).await?;
    if let Some(micros) = arguments.replay {
        let replay = client.dead(DeadFilter::new()).replay().rate(REPLAYED);
        replay.begun_at(Timestamp::from_micros(micros)).run().await?;
        return Ok(());
    }
    let mut running = Vec::new();
    for _ in 0..arguments.workers {
        let mut worker = Worker::with_state(&client, witness.clone())
            .name(&arguments.label)
            .concurrency(arguments.concurrency)
            .lease_unchecked(arguments.lease)
            .poll_interval(arguments.poll)
            .wakeups(arguments.wakeups)
            .reap_interval(arguments.reap.unwrap_or(arguments.lease / 4))
            .drain_deadline(arguments.drain)
            .handle(jobs::touch)
            .handle(jobs::plain)
            .handle(jobs::hold)
            .handle(jobs::chat)
            .handle_blocking(jobs::hold_thread)
            .handle(jobs::spin)
            .handle(jobs::abort)
            .handle(repeats::effect)
            .handle(repeats::link)
            .handle(repeats::doomed)
            .handle(flows::knot);
        for queue in &arguments.queues {
            worker = worker.queue(queue, arguments.concurrency);
        }
        running.push(tokio::spawn(worker.run()));
    }
    let producer = arguments.produce.map(|pause| tokio::spawn(produce(client, pause)));
    for worker in running {
        worker.await.context("a worker panicked")??;
    }
    if let Some(producer) = producer {
        producer.abort();
    }
    Ok(())
}

/// Hands in jobs by the clock of this process. It goes on while the store is away for a moment.
async fn produce(client: Client, pause: Duration) {
    for number in 0_u64.. {
        let job = jobs::Plain { word: number.to_string(), millis: 50 };
        if let Err(error) = client.enqueue(job).await {
            eprintln!("job {number} was not accepted: {error}");
        }
        tokio::time::sleep(pause).await;
    }
}

impl Arguments {
    fn read() -> Result<Self> {
        let mut read = Self {
            store: String::new(),
            label: String::new(),
            witness: PathBuf::new(),
            queues: Vec::new(),
            workers: 1,
            threads: 2,
            concurrency: 16,
            lease: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            reap: None,
            wakeups: windlass::worker::Wakeups::On,
            drain: Duration::from_secs(10),
            produce: None,
            replay: None,
        };
        let mut words = std::env::args().skip(1);
        while let Some(option) = words.next() {
            let value = words.next().with_context(|| format!("{option} needs a value"))?;
            let millis = || value.parse().map(Duration::from_millis);
            match option.as_str() {
                "--store" => read.store = value,
                "--label" => read.label = value,
                "--witness" => read.witness = value.into(),
                "--queues" => read.queues = value.split(',').map(ToOwned::to_owned).collect(),
                "--workers" => read.workers = value.parse()?,
                "--threads" => read.threads = value.parse()?,
                "--concurrency" => read.concurrency = value.parse()?,
                "--lease-ms" => read.lease = millis()?,
                "--poll-ms" => read.poll = millis()?,
                "--reap-ms" => read.reap = Some(millis()?),
                "--drain-ms" => read.drain = millis()?,
                "--produce-ms" => read.produce = Some(millis()?),
                "--replay" => read.replay = Some(value.parse()?),
                "--wakeups" if value == "off" => read.wakeups = windlass::worker::Wakeups::Off,
                _ => bail!("unknown option {option}"),
            }
        }
        Ok(read)
    }
}
