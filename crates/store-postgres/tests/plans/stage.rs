//! A server with as many rows as the test wants, and sessions that tell how their statements were planned.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use windlass_store_postgres::PostgresStore;
use windlass_store_testkit::servers::{PostgresServer, Settings};

use super::Cost;
use super::calls::Call;

const LEASE: &str = "00000000-0000-7000-8000-00000000000a";
const LOST: &str = "00000000-0000-7000-8000-00000000000b";

pub(crate) struct Stage {
    server: PostgresServer,
    admin: Client,
    costs: Mutex<HashMap<(i64, &'static str), f64>>,
}

impl Stage {
    /// A store with ten jobs that run, ten whose worker is gone, and some that are late; nothing else.
    pub(crate) async fn new() -> Self {
        // Statistics come when the test says so.
        let settings = Settings::default().set("autovacuum", "off").set("max_wal_size", "4GB");
        let server = PostgresServer::start(&settings.set("shared_buffers", "256MB"));
        drop(PostgresStore::open(&server.url()).await.unwrap());
        let (admin, connection) = tokio_postgres::connect(&server.superuser_url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let stage = Self { server, admin, costs: Mutex::default() };
        stage.run(include_str!("fixtures.sql")).await;
        stage
    }

    async fn run(&self, sql: &str) {
        let sql = sql.replace("{LEASE}", LEASE).replace("{LOST}", LOST);
        self.admin.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Adds waiting and ended jobs, until there are so many of each.
    pub(crate) async fn grow_to(&self, jobs: i64) {
        let sql = include_str!("grow.sql").replace("{jobs}", &jobs.to_string());
        self.run(&sql).await;
    }

    pub(crate) async fn analyse(&self) {
        self.run("ANALYZE").await;
    }

    /// Gates come and go: there may be statistics of a moment in which there were next to none.
    pub(crate) async fn analyse_gates(&self) {
        self.run("ANALYZE windlass.gates, windlass.gate_runs, windlass.gate_jobs, windlass.gate_reports, windlass.key_spent")
            .await;
    }

    /// A connection that has not planned anything.
    pub(crate) async fn session(&self) -> Session {
        Session::open(&self.server.superuser_url()).await
    }

    pub(crate) fn remember(&self, jobs: i64, costs: HashMap<&'static str, Cost>) {
        let mut known = self.costs.lock().unwrap();
        for (call, cost) in costs {
            let most = known.entry((jobs, call)).or_default();
            *most = most.max(cost.buffers);
        }
    }

    /// With a thousand times the jobs an index is a level or two deeper, and no more.
    pub(crate) fn compare(&self, few: i64, many: i64) {
        let known = self.costs.lock().unwrap();
        for (&(jobs, call), &buffers) in known.iter().filter(|((jobs, _), _)| *jobs == many) {
            let before = known[&(few, call)];
            println!("{call}: {before} pages with {few} jobs, {buffers} with {jobs}");
            assert!(
                buffers <= before * 3.0 + 50.0,
                "{call}: {before} pages with {few} jobs, {buffers} with {jobs}"
            );
        }
    }
}

pub(crate) struct Session {
    client: Client,
    plans: Arc<Mutex<Vec<Value>>>,
    functions: Vec<String>,
}

impl Session {
    async fn open(url: &str) -> Self {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let plans = Arc::<Mutex<Vec<Value>>>::default();
        let heard = Arc::clone(&plans);
        tokio::spawn(async move {
            let mut messages = stream::poll_fn(|context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                let AsyncMessage::Notice(notice) = message else { continue };
                if let Some((_, plan)) = notice.message().split_once("plan:\n") {
                    heard.lock().unwrap().push(serde_json::from_str(plan).unwrap());
                }
            }
        });
        let settings = "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;
            SET auto_explain.log_timing = off; SET auto_explain.log_buffers = on; SET auto_explain.log_format = json;
            SET auto_explain.log_level = notice; SET auto_explain.log_nested_statements = on";
        client.batch_execute(settings).await.unwrap();
        let names = "SELECT proname::text FROM pg_proc WHERE pronamespace = 'windlass'::regnamespace";
        let functions = client.query(names, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        Self { client, plans, functions }
    }

    /// Makes a call, undoes it, and answers the plans of its statements.
    pub(crate) async fn explain(&self, call: &Call) -> Vec<Value> {
        let prefix = format!("{}_", call.function);
        let is_it = |name: &&String| {
            name.strip_prefix(&prefix).is_some_and(|digest| digest.len() == 12 && !digest.contains('_'))
        };
        let function = self.functions.iter().find(is_it).unwrap_or_else(|| panic!("no {}", call.function));
        let statement = format!("SELECT * FROM windlass.{function}({})", arguments(call.arguments));
        self.client.batch_execute("BEGIN").await.unwrap();
        self.plans.lock().unwrap().clear();
        self.client.batch_execute(&statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        let plans = std::mem::take(&mut *self.plans.lock().unwrap());
        self.client.batch_execute("ROLLBACK").await.unwrap();
        plans
    }
}

/// Fills in columns of ten values each.
fn arguments(template: &str) -> String {
    let column = |value: &dyn Fn(usize) -> String| {
        let values: Vec<_> = (1..=10).map(value).collect();
        format!("'{{{}}}'", values.join(","))
    };
    let id = |first: usize| move |place: usize| format!("00000000-0000-7000-8000-{:012x}", first + place);
    [
        ("{ids}", column(&id(0xa00))),
        ("{id}", format!("'{}'", id(0xa00)(1))),
        ("{lost}", column(&id(0xb00))),
        ("{new}", column(&id(0xc00))),
        ("{places}", column(&|place| place.to_string())),
        ("{queues}", column(&|_| "q".to_owned())),
        ("{kinds}", column(&|_| "k0".to_owned())),
        ("{bytes}", column(&|_| r"\\x00".to_owned())),
        ("{endings}", column(&|place| if place <= 3 { "completed" } else { "failed" }.to_owned())),
        ("{zeros}", column(&|_| "0".to_owned())),
        ("{ones}", column(&|_| "1".to_owned())),
        ("{holds}", column(&|_| "-1".to_owned())),
        ("{nulls}", column(&|_| "NULL".to_owned())),
        ("{digests}", column(&id(0xe00))),
        ("{lifetimes}", column(&|place| if place <= 5 { "end" } else { "window 9" }.to_owned())),
        // Three of jobs that run, and one of a job that waits.
        ("{held}", column(&|place| if place <= 3 { id(0xa00)(place) } else { id(0xd00)(1) })),
        ("{replace}", column(&|_| "replace".to_owned())),
        ("{lines}", column(&|place| format!("a{place}"))),
        ("{late}", column(&id(0xd00))),
        ("{lease}", LEASE.to_owned()),
        ("{call}", "00000000-0000-4000-8000-00000000000c".to_owned()),
    ]
    .into_iter()
    .fold(template.to_owned(), |text, (name, values)| text.replace(name, &values))
}
