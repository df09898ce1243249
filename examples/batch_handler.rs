//! How are many jobs written by one statement, and each of them told what became of it?

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{QueryBuilder, Sqlite, SqlitePool};
use windlass::worker::{Answers, Batch, Batching};
use windlass::{FromRef, Job, JobError, State, Worker};

#[derive(Serialize, Deserialize)]
struct SignUp {
    name: String,
}

impl Job for SignUp {
    const KIND: &'static str = "sign_up";
    type Output = i64;
}

#[derive(Clone)]
struct App {
    pool: SqlitePool,
    statements: Arc<AtomicU32>,
}

impl FromRef<App> for SqlitePool {
    fn from_ref(app: &App) -> Self {
        app.pool.clone()
    }
}

async fn sign_up(
    people: Batch<SignUp>,
    State(app): State<App>,
    State(pool): State<SqlitePool>,
) -> Result<Answers<SignUp>, JobError> {
    let (good, bad): (Vec<_>, Vec<_>) = people.iter().partition(|person| !person.job.name.is_empty());
    let bad = bad.iter().map(|person| (person.id(), Err(JobError::fail("a person needs a name"))));
    let mut answers: Answers<SignUp> = bad.collect();
    if !good.is_empty() {
        let mut query = QueryBuilder::<Sqlite>::new("INSERT INTO people (name) ");
        query.push_values(&good, |mut row, person| {
            row.push_bind(&person.job.name);
        });
        query.push(" RETURNING id");
        // If the database is away, all of them are tried again.
        let ids: Vec<i64> = query.build_query_scalar().fetch_all(&pool).await?;
        app.statements.fetch_add(1, Ordering::SeqCst);
        answers.extend(good.iter().zip(ids).map(|(person, id)| (person.id(), Ok(id))));
    }
    Ok(answers)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)").execute(&pool).await?;
    let app = App { pool: pool.clone(), statements: Arc::default() };

    let client = windlass::open("memory:").await?;
    let worker = Worker::with_state(&client, app.clone())
        .batch(Batching::up_to(100).linger(Duration::from_millis(20)), sign_up)
        .concurrency(300)
        .start()?;

    let people = (1..=1_000).map(|number| SignUp { name: format!("person {number}") });
    let handles = client.enqueue_all(people).await?;
    let nameless = client.enqueue(SignUp { name: String::new() }).await?;
    for handle in handles {
        handle.output().await?;
    }
    let statements = app.statements.load(Ordering::SeqCst);
    println!("1000 jobs, {} statements", if statements < 100 { "a few" } else { "many" });
    if let Err(error) = nameless.output().await {
        println!("one of them: {error}");
    }
    worker.stop().await;
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM people").fetch_one(&pool).await?;
    println!("{count} rows in the table");
    Ok(())
}
