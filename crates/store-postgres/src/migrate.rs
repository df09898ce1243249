//! The schema and how it grows. Steps are numbered, applied in order, and never edited after they land; functions
//! are added beside those that are there, and dropped when no program has used them for a month. All of it happens in one transaction under a lock of the server, so
//! that of several programs that start at once one does the work and the others find it done.
//!
//! A step says from which version on programs can work with it. Steps that only add are worked with by programs
//! that do not know them, so a fleet can be replaced one by one.

use std::fmt::Write as _;
use std::time::Duration;

use tokio_postgres::types::Type;
use windlass_core::StoreError;
use windlass_core::store::StoreResult;

use crate::connect::{self, Call, Server};
use crate::error::Fault;
use crate::functions;
use crate::options::{PostgresOptions, quoted};
use crate::row::at;
use crate::session::Session;

/// One step of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// Its number; the schema's version after it. Functions have none: their names say which text they are.
    pub version: Option<i64>,
    /// What it is about.
    pub name: &'static str,
    /// The statements it runs.
    pub sql: String,
}

/// A step as it is written down.
struct Step {
    version: i64,
    name: &'static str,
    sql: &'static str,
    /// Programs that know less than this version cannot work with the schema any more.
    needs: i64,
}

/// One step in two files, for their length.
const UNIQUE: &str = concat!(
    include_str!("../migrations/0005_unique.sql"),
    "\n",
    include_str!("../migrations/0005_unique_accept.sql")
);

/// One step in three files, for their length.
const KEYS: &str = concat!(
    include_str!("../migrations/0007_keys.sql"),
    "\n",
    include_str!("../migrations/0007_keys_accept.sql"),
    "\n",
    include_str!("../migrations/0007_keys_room.sql")
);

/// One step in two files, for their length.
const REPORTS: &str = concat!(
    include_str!("../migrations/0008_reports.sql"),
    "\n",
    include_str!("../migrations/0008_reports_accept.sql")
);

/// One step in two files, for their length.
const UNCOUNTED: &str = concat!(
    include_str!("../migrations/0011_uncounted.sql"),
    "\n",
    include_str!("../migrations/0011_uncounted_accept.sql")
);
const TALLIES: &str = concat!(
    include_str!("../migrations/0013_tallies.sql"),
    "\n",
    include_str!("../migrations/0013_tallies_accept.sql")
);

/// Every step, in order.
const STEPS: &[Step] = &[
    Step { version: 1, name: "jobs", sql: include_str!("../migrations/0001_jobs.sql"), needs: 1 },
    Step { version: 2, name: "enqueue", sql: include_str!("../migrations/0002_enqueue.sql"), needs: 1 },
    Step { version: 3, name: "inner functions", sql: include_str!("../migrations/0003_inner.sql"), needs: 1 },
    Step { version: 4, name: "bulk", sql: include_str!("../migrations/0004_bulk.sql"), needs: 1 },
    // Keys are given up whichever program calls, by inner functions.
    Step { version: 5, name: "unique keys", sql: UNIQUE, needs: 1 },
    Step { version: 6, name: "rules", sql: include_str!("../migrations/0006_rules.sql"), needs: 1 },
    // Programs that do not know of keys stay out of queues that have them, by the rules of those.
    Step { version: 7, name: "keys of jobs", sql: KEYS, needs: 1 },
    // Programs of before read what gates are told through a view.
    Step { version: 8, name: "reports to gates", sql: REPORTS, needs: 1 },
    Step { version: 9, name: "records", sql: include_str!("../migrations/0009_records.sql"), needs: 1 },
    Step { version: 10, name: "jobs alike", sql: include_str!("../migrations/0010_alike.sql"), needs: 1 },
    // Programs of before count jobs where no concurrency is to be held, which changes nothing.
    Step { version: 11, name: "uncounted", sql: UNCOUNTED, needs: 1 },
    // Programs of before hold no job, and leave those that are held as they are.
    Step { version: 12, name: "held jobs", sql: include_str!("../migrations/0012_held.sql"), needs: 1 },
    // What programs of before do is counted as well, without times, and of ends without kinds.
    Step { version: 13, name: "tallies", sql: TALLIES, needs: 1 },
];

/// The newest version that this program knows.
const KNOWN: i64 = STEPS[STEPS.len() - 1].version;

/// The oldest version that is migrated: those of before the first release are refused.
const FIRST: i64 = 3;

/// How far the schema of a store has grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The version in the store; 0 when it has none.
    pub found: i64,
    /// The newest version that this program knows.
    pub known: i64,
    /// What migrating would run.
    pub pending: Vec<Migration>,
    schema: String,
    has_schema: bool,
}

/// The indexes that the steps leave, beside those of primary keys.
pub(crate) fn indexes() -> Vec<String> {
    let mut made: Vec<(&str, &str)> = Vec::new();
    for line in STEPS.iter().flat_map(|step| step.sql.lines()) {
        let words: Vec<&str> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        match words[..] {
            ["CREATE", "INDEX", name, "ON", table, ..]
            | ["CREATE", "UNIQUE", "INDEX", name, "ON", table, ..] => made.push((name, table)),
            ["DROP", "INDEX", name, ..] => made.retain(|(other, _)| *other != name),
            // What was on it goes with it.
            ["DROP", "TABLE", name, ..] => made.retain(|(_, table)| *table != name),
            _ => {}
        }
    }
    made.into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// How long after its last use a function is dropped. Programs that run say every few hours which ones they use.
const UNUSED_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long a migration may take.
const DEADLINE: Duration = Duration::from_secs(600);

/// Looks at the schema under a URL and changes nothing.
pub async fn status(url: &str) -> Result<Status, StoreError> {
    let options = PostgresOptions::parse(url)?;
    let server = connect::start(&options).await?;
    connect::probe(&server).await?;
    let schema = options.schema.clone();
    let look = async move |_, session: Session| look(&session, &schema).await?.status(&schema);
    server.call(Call::READ, look).await
}

/// Brings the schema up to date, whatever the options say about doing so by itself. Answers what it found, of
/// which everything that was pending is done now.
pub async fn run(url: &str) -> Result<Status, StoreError> {
    let options = PostgresOptions::parse(url)?;
    let server = connect::start(&options).await?;
    connect::probe(&server).await?;
    apply(&server).await
}

/// Brings the schema up to date, and answers how it was before.
pub(crate) async fn apply(server: &Server) -> StoreResult<Status> {
    let schema = server.connections().options.schema.clone();
    server
        .call(Call::WRITE.within(DEADLINE), async move |_, session| {
            let status = look(&session, &schema).await?.status(&schema)?;
            if status.pending.is_empty() {
                note_use(&session, &quoted(&schema)).await;
                return Ok(status);
            }
            // On a failure the connection is closed, and with it the transaction. Each look must see what was
            // committed while we waited for the lock, whatever the server's default is.
            session
                .batch(&format!(
                    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; \
                     SET LOCAL lock_timeout = '60s'; SET LOCAL idle_in_transaction_session_timeout = 0; {}",
                    lock(&schema)
                ))
                .await?;
            let status = look(&session, &schema).await?.status(&schema)?;
            session.batch(&status.statements()).await?;
            session.batch("COMMIT").await?;
            Ok(status)
        })
        .await
}

/// Of several who migrate, one does and the others wait.
fn lock(schema: &str) -> String {
    format!("SELECT pg_advisory_xact_lock(hashtextextended('windlass migrate {schema}', 0));")
}

/// Fails unless the schema is there and this program can work with it.
pub(crate) async fn check(server: &Server) -> StoreResult<()> {
    let schema = server.connections().options.schema.clone();
    let status = server
        .call(Call::READ, async move |_, session| {
            let status = look(&session, &schema).await?.status(&schema)?;
            if status.pending.is_empty() {
                note_use(&session, &quoted(&schema)).await;
            }
            Ok(status)
        })
        .await?;
    match status.pending.first() {
        None => Ok(()),
        Some(_) if status.found == 0 => Err(StoreError::Address(format!(
            "the schema {} holds no store: run `windlass migrate`, or name another by schema=name",
            status.schema
        ))),
        Some(step) => Err(StoreError::Address(format!(
            "the schema lacks {:?} (version {}, this program needs {}): run `windlass migrate`",
            step.name, status.found, status.known
        ))),
    }
}

/// Notes in a schema, which is quoted, that this program uses its functions, so that no migration drops them.
pub(crate) async fn note_use(session: &Session, schema: &str) {
    let noted =
        session.query(&format!("SELECT {schema}.functions_seen($1)"), &[(&names(), Type::TEXT_ARRAY)]).await;
    if let Err(fault) = noted {
        // A program that may only read goes on.
        tracing::warn!(
            ?fault,
            "cannot note which functions this program uses: a migration may drop them after 30 days"
        );
    }
}

/// The names of this program's functions.
fn names() -> Vec<String> {
    functions::ALL.iter().map(functions::Function::full_name).collect()
}

/// What there is in the schema.
struct Found {
    has_schema: bool,
    version: i64,
    needs: i64,
    functions: Vec<String>,
}

async fn look(session: &Session, schema: &str) -> Result<Found, Fault> {
    const FUNCTIONS: &str = "SELECT p.proname::text FROM pg_catalog.pg_proc AS p \
        JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = $1";
    // By the catalogues: a role that may not look into the schema is told so by the next statement.
    const PLACE: &str = "SELECT count(n.oid) > 0, count(c.oid) > 0 FROM pg_catalog.pg_namespace AS n \
        LEFT JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = 'settings' WHERE n.nspname = $1";
    let mut found = Found { has_schema: false, version: 0, needs: 0, functions: Vec::new() };
    for row in session.query(PLACE, &[(&schema, Type::TEXT)]).await? {
        found.has_schema = at(&row, 0)?;
        if !at(&row, 1)? {
            return Ok(found);
        }
    }
    let versions = versions(session, &quoted(schema)).await?;
    (found.version, found.needs) = (versions.found, versions.needs);
    for row in session.query(FUNCTIONS, &[(&schema, Type::TEXT)]).await? {
        found.functions.push(at(&row, 0)?);
    }
    Ok(found)
}

/// What the schema says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Versions {
    found: i64,
    needs: i64,
}

impl Versions {
    /// Fails when this program cannot work with it.
    pub(crate) fn check(self) -> Result<(), StoreError> {
        if self.needs > KNOWN { Err(too_new(self.found.max(self.needs))) } else { Ok(()) }
    }
}

/// For a schema that asks for more than this program knows.
pub(crate) fn too_new(found: i64) -> StoreError {
    StoreError::SchemaTooNew { found, known: KNOWN }
}

/// Asks a schema, which is quoted, for its versions.
pub(crate) async fn versions(session: &Session, schema: &str) -> Result<Versions, Fault> {
    let ask = format!("SELECT name, value FROM {schema}.settings WHERE name IN ('layout', 'layout_needs')");
    let mut versions = Versions { found: 0, needs: 0 };
    for row in session.query(&ask, &[]).await? {
        match at::<&str>(&row, 0)? {
            "layout" => versions.found = at(&row, 1)?,
            _ => versions.needs = at(&row, 1)?,
        }
    }
    // The table is made in one transaction with the first step.
    if versions.found < FIRST { Err(StoreError::unreleased_layout("schema").into()) } else { Ok(versions) }
}

impl Found {
    fn status(&self, schema: &str) -> Result<Status, Fault> {
        Versions { found: self.version, needs: self.needs }.check()?;
        let steps = STEPS.iter().filter(|step| step.version > self.version).map(|step| Migration {
            version: Some(step.version),
            name: step.name,
            sql: format!("{}\n{}", functions::planned(step.sql.trim_end()), settings(step)),
        });
        let functions =
            functions::ALL.iter().filter(|function| !self.functions.contains(&function.full_name()));
        let functions = functions.map(|function| Migration {
            version: None,
            name: function.name,
            sql: function.definition(&quoted(schema)),
        });
        let pending = steps.chain(functions).collect();
        let has_schema = self.has_schema;
        Ok(Status { found: self.version, known: KNOWN, pending, schema: schema.to_owned(), has_schema })
    }
}

/// Writes down that a step was taken.
fn settings(step: &Step) -> String {
    let Step { version, needs, .. } = step;
    format!(
        "INSERT INTO settings (name, value) VALUES ('layout', {version}), ('layout_needs', {needs})\n\
         ON CONFLICT (name) DO UPDATE SET value = greatest(settings.value, excluded.value);"
    )
}

impl Status {
    /// Everything that is pending, as a script of one transaction for operators who would rather run it themselves:
    /// `windlass migrate --dry-run | psql`. Nothing when nothing is pending.
    pub fn script(&self) -> String {
        if self.pending.is_empty() {
            return String::new();
        }
        let (lock, statements) = (lock(&self.schema), self.statements());
        format!("BEGIN ISOLATION LEVEL READ COMMITTED;\n{lock}\n{statements}COMMIT;\n")
    }

    /// Everything that is pending, for a transaction that has begun.
    fn statements(&self) -> String {
        let mut script = String::new();
        if self.pending.is_empty() {
            return script;
        }
        if !self.has_schema {
            // Not `IF NOT EXISTS`, which only those may say who may make schemas, even where there is one.
            let _ = writeln!(script, "CREATE SCHEMA {};", quoted(&self.schema));
        }
        // Functions keep this path; temporary tables come last, lest one of a user's be taken for ours.
        let _ = writeln!(script, "SET LOCAL search_path = {}, pg_temp;", quoted(&self.schema));
        for step in &self.pending {
            let number =
                step.version.map_or_else(|| "function".to_owned(), |version| format!("{version:04}"));
            let _ = write!(script, "\n-- {number} {}\n\n{}\n", step.name, step.sql.trim());
        }
        let (names, age) = (names().join(","), UNUSED_AGE.as_micros());
        let _ = writeln!(script, "\n-- functions that no program uses any more\n");
        let _ = writeln!(script, "SELECT functions_seen('{{{names}}}');\nSELECT functions_drop({age});");
        script
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_from_one_without_gaps() {
        for (index, step) in STEPS.iter().enumerate() {
            assert_eq!(step.version, index as i64 + 1);
            assert!(step.needs <= step.version && !step.name.is_empty());
        }
    }

    #[test]
    fn a_program_works_with_a_newer_schema_that_only_added() {
        let found = |needs| Found { has_schema: true, version: 99, needs, functions: Vec::new() };
        assert!(found(1).status("s").is_ok());
        let Err(Fault::Refused(StoreError::SchemaTooNew { found: 99, .. })) = found(99).status("s") else {
            panic!("a schema that asks for more was accepted");
        };
    }

    #[test]
    fn what_is_there_is_not_pending() {
        let functions = functions::ALL.iter().map(functions::Function::full_name).collect();
        let found = Found { has_schema: true, version: KNOWN, needs: 1, functions };
        let status = found.status("s").unwrap();
        assert_eq!((status.script(), status.pending), (String::new(), Vec::new()));
    }
}
