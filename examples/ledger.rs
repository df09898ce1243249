//! How do effects in my own tables happen exactly once, although workers die?
//!
//! `ledger` uses an SQLite file of its own; `ledger <url>` takes a `sqlite://` or `postgres://` database. The
//! program starts workers as processes, kills some of them in the middle of their work, and checks its books.

use std::error::Error;
use std::process::{Child, Command};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::{PgPool, SqlitePool};
use windlass::{Client, Ctx, Job, JobError, Options, State, Worker};

const QUEUE: &str = "ledger";
const TRANSFERS: i64 = 200;
const KILLS: i64 = 4;

#[derive(Serialize, Deserialize)]
struct Transfer {
    number: i64,
    cents: i64,
}

impl Job for Transfer {
    const KIND: &'static str = "transfer";
    type Output = ();

    fn options() -> Options {
        Options::new().queue(QUEUE)
    }
}

/// The database that the jobs are in as well.
#[derive(Clone)]
enum Bank {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// The same statements, whatever the database.
macro_rules! on {
    ($bank:expr, $pool:ident => $body:expr) => {
        match $bank {
            Bank::Sqlite($pool) => $body,
            Bank::Postgres($pool) => $body,
        }
    };
}

impl Bank {
    async fn open(url: &str) -> Result<Self, sqlx::Error> {
        Ok(match url.starts_with("sqlite") {
            true => Self::Sqlite(SqlitePool::connect(url).await?),
            false => Self::Postgres(PgPool::connect(url).await?),
        })
    }

    /// SQLite wants to know at the beginning who will write.
    fn begin(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
            Self::Postgres(_) => "BEGIN",
        }
    }
}

async fn transfer(job: Transfer, ctx: Ctx, State(bank): State<Bank>) -> Result<(), JobError> {
    // The slow part comes before the transaction.
    tokio::time::sleep(Duration::from_millis(5)).await;
    on!(&bank, pool => {
        let mut tx = pool.begin_with(bank.begin()).await?;
        for (account, cents) in [("ada", -job.cents), ("brunel", job.cents)] {
            // Nothing here would keep a transfer from being booked twice.
            sqlx::query("INSERT INTO example_ledger (transfer, account, cents) VALUES ($1, $2, $3)")
                .bind(job.number)
                .bind(account)
                .bind(cents)
                .execute(&mut *tx)
                .await?;
        }
        ctx.complete_within(&mut tx).await?;
        tx.commit().await?;
    });
    // Whatever happens from here on, the transfer is booked and the job is done.
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(())
}

/// Makes the table and enqueues the transfers, all in one transaction.
async fn prepare(client: &Client, bank: &Bank) -> Result<(), Box<dyn Error>> {
    let table = "CREATE TABLE example_ledger (transfer BIGINT NOT NULL, account TEXT NOT NULL, cents BIGINT NOT NULL)";
    let transfers = (1..=TRANSFERS).map(|number| Transfer { number, cents: 100 + number });
    on!(bank, pool => {
        let mut tx = pool.begin_with(bank.begin()).await?;
        sqlx::query("DROP TABLE IF EXISTS example_ledger").execute(&mut *tx).await?;
        sqlx::query(table).execute(&mut *tx).await?;
        client.enqueue_all(transfers).within(&mut tx).await?;
        tx.commit().await?;
    });
    Ok(())
}

/// Jobs that are not at their end yet.
async fn open(client: &Client) -> windlass::Result<i64> {
    Ok(client.queue(QUEUE)?.counts().await?.open() as i64)
}

/// Transfers, lines and the balance of the second account.
async fn books(bank: &Bank) -> Result<(i64, i64, i64), sqlx::Error> {
    let sql = "SELECT count(DISTINCT transfer), count(*), \
               CAST(coalesce(sum(CASE WHEN account = 'brunel' THEN cents END), 0) AS BIGINT) FROM example_ledger";
    on!(bank, pool => sqlx::query_as(sql).fetch_one(pool).await)
}

/// This program as a worker. Dropping it is `kill -9`: no goodbye, whatever it was about to do.
struct WorkerProcess(Child);

impl WorkerProcess {
    fn start(url: &str) -> std::io::Result<Self> {
        Command::new(std::env::current_exe()?).args(["work", url]).spawn().map(Self)
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn work(url: &str) -> Result<(), Box<dyn Error>> {
    let (client, bank) = (windlass::open(url).await?, Bank::open(url).await?);
    // The shorter the lease, the sooner the jobs of a killed worker go to others.
    Worker::with_state(&client, bank)
        .handle(transfer)
        .concurrency(4)
        .lease(Duration::from_secs(5))
        .run()
        .await?;
    Ok(())
}

async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let (client, bank) = (windlass::open(url).await?, Bank::open(url).await?);
    prepare(&client, &bank).await?;
    println!("{TRANSFERS} transfers enqueued");
    let mut workers = [WorkerProcess::start(url)?, WorkerProcess::start(url)?];
    let mut killed = 0;
    loop {
        let open = open(&client).await?;
        if open == 0 {
            break;
        }
        if killed < KILLS && open <= TRANSFERS - (killed + 1) * TRANSFERS / (KILLS + 2) {
            workers[killed as usize % 2] = WorkerProcess::start(url)?;
            killed += 1;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(workers);
    let (transfers, lines, balance) = books(&bank).await?;
    println!("{killed} workers killed; {transfers} transfers in {lines} lines, brunel has {balance} cents");
    let expected: i64 = (1..=TRANSFERS).map(|number| 100 + number).sum();
    if (transfers, lines, balance) != (TRANSFERS, 2 * TRANSFERS, expected) {
        return Err(
            format!("the books are wrong: expected {expected} cents in {} lines", 2 * TRANSFERS).into()
        );
    }
    println!("the books are exact");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", url] => work(url).await,
        [url] => run(url).await,
        _ => {
            let folder = tempfile::tempdir()?;
            run(&format!("sqlite://{}/bank.db", folder.path().display())).await
        }
    }
}
