//! How do a thousand callers that insert one row each share a few statements?

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{QueryBuilder, Sqlite, SqlitePool};
use windlass::local::Batcher;

/// Inserts all rows that can be, in one statement, and answers for each row its id or what is wrong with it.
async fn insert(pool: SqlitePool, names: Vec<String>) -> Vec<Result<i64, String>> {
    let good: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    let mut ids = Ok(Vec::new());
    if !good.is_empty() {
        let mut query = QueryBuilder::<Sqlite>::new("INSERT INTO people (name) ");
        query.push_values(&good, |mut row, name| {
            row.push_bind(*name);
        });
        query.push(" RETURNING id");
        ids = query.build_query_scalar::<i64>().fetch_all(&pool).await.map_err(|error| error.to_string());
    }
    let mut ids = ids.map(Vec::into_iter);
    let answer = |name: &String| {
        if name.is_empty() {
            return Err("a person needs a name".to_owned());
        }
        match &mut ids {
            Ok(ids) => ids.next().ok_or_else(|| "no id came back".to_owned()),
            Err(error) => Err(error.clone()),
        }
    };
    names.iter().map(answer).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)").execute(&pool).await?;

    let statements = Arc::new(AtomicU32::new(0));
    let (rows, counted) = (pool.clone(), Arc::clone(&statements));
    let people = Batcher::builder().size(250).linger(Duration::from_millis(5)).build(move |names| {
        counted.fetch_add(1, Ordering::SeqCst);
        insert(rows.clone(), names)
    })?;

    let callers: Vec<_> = (1..=1_000)
        .map(|number| {
            let people = people.clone();
            tokio::spawn(async move { people.add(format!("person {number}")).await })
        })
        .collect();
    for caller in callers {
        caller.await???;
    }
    let shared = statements.load(Ordering::SeqCst);
    println!(
        "1000 rows in {} statements, {} a row",
        shared,
        if shared < 100 { "far fewer than one" } else { "one" }
    );

    let (good, bad) = tokio::join!(people.add("Ada".into()), people.add(String::new()));
    println!("the good one got id {}", good??);
    if let Err(error) = bad? {
        println!("the bad one was told so: {error}");
    }
    people.close().await?;

    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM people WHERE name LIKE 'person %'").fetch_one(&pool).await?;
    println!("{count} rows in the table");
    Ok(())
}
