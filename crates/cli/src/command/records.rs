//! `records`: what a queue keeps beside its jobs.

use serde::Serialize;
use serde_json::value::RawValue;
use windlass::Client;
use windlass::worker::Records;
use windlass_core::Name;
use windlass_core::record::{Record, RecordKey, Version};
use windlass_core::store::{RecordPage, RecordTotals};

use crate::args::{RecordsCommand, RecordsGetArgs, RecordsListArgs, RecordsPutArgs, RecordsRemoveArgs};
use crate::command::{enqueue, known};
use crate::exit::{Exit, Fault};
use crate::output::content::{self, Content};
use crate::output::{cell, clean, json, keep_whole, text};
use crate::session::{Access, Session};

pub(crate) async fn run(session: &mut Session, command: RecordsCommand) -> anyhow::Result<Exit> {
    match command {
        RecordsCommand::List(args) => list(session, &args).await,
        RecordsCommand::Get(args) => get(session, &args).await,
        RecordsCommand::Put(args) => put(session, &args).await,
        RecordsCommand::Remove(args) => remove(session, &args).await,
    }
}

#[derive(Debug, Serialize)]
struct RecordJson<'a> {
    key: &'a RecordKey,
    version: String,
    value: Content<'a>,
    value_encoding: &'static str,
    written_at: String,
    expires_at: Option<String>,
}

impl<'a> RecordJson<'a> {
    fn of(record: &'a Record) -> Self {
        let value = Content::of(&record.value);
        Self {
            key: &record.key,
            version: record.version.to_string(),
            value,
            value_encoding: value.encoding(),
            written_at: json::instant(record.written_at),
            expires_at: record.expires_at.map(json::instant),
        }
    }
}

#[derive(Debug, Serialize)]
struct Page<'a> {
    records: Vec<RecordJson<'a>>,
    next: Option<&'a RecordKey>,
    totals: Totals,
}

#[derive(Debug, Serialize)]
struct Totals {
    count: u64,
    bytes: u64,
    has_more: bool,
}

#[derive(Debug, Serialize)]
struct Written<'a> {
    key: &'a RecordKey,
    version: String,
}

#[derive(Debug, Serialize)]
struct Gone<'a> {
    key: &'a RecordKey,
    removed: bool,
}

async fn list(session: &mut Session, args: &RecordsListArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let records = client.records(&args.queue)?;
    let totals = records.totals().await?;
    if totals.count == 0 {
        known::check_queue(&client, &args.queue).await?;
    }
    let page = records.list(&args.prefix, args.after.as_ref(), args.limit).await?;
    if session.output.is_json() {
        let RecordTotals { count, bytes, has_more, .. } = totals;
        let totals = Totals { count, bytes, has_more };
        let records = page.records.iter().map(RecordJson::of).collect();
        session.output.json(&Page { records, next: page.next.as_ref(), totals })?;
        return Ok(Exit::Done);
    }
    print(session, &page)?;
    let more = if totals.has_more { "more than " } else { "" };
    let (count, bytes) = (totals.count, text::size(usize::try_from(totals.bytes).unwrap_or(usize::MAX)));
    session.note(&format!("queue {} has {more}{count} records, {bytes} in all", args.queue));
    if let Some(key) = &page.next {
        session.note(&format!("there are more: repeat with --after {key}"));
    }
    Ok(Exit::Done)
}

fn print(session: &mut Session, page: &RecordPage) -> anyhow::Result<()> {
    if page.records.is_empty() {
        session.note("no records");
        return Ok(());
    }
    let format = session.output.format();
    let mut table = session.output.new_table(&["KEY", "VERSION", "SIZE", "WRITTEN", "EXPIRES", "VALUE"]);
    for record in &page.records {
        let value = match Content::of(&record.value) {
            Content::Json(value) | Content::Utf8(value) => text::first_line(value),
            Content::Bytes(_) => content::readable(&record.value),
        };
        table.add_row([
            cell(&record.key),
            cell(record.version.to_string()),
            cell(text::size(record.value.len())),
            cell(text::instant(record.written_at, format)),
            cell(record.expires_at.map(|at| text::instant(at, format)).unwrap_or_default()),
            cell(value),
        ]);
    }
    keep_whole(&mut table, &[0, 1, 2, 3, 4]);
    Ok(session.output.table(table)?)
}

async fn get(session: &mut Session, args: &RecordsGetArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let Some(record) = client.records(&args.queue)?.get_raw(&args.key).await? else {
        return missing(session, &client, args).await;
    };
    if session.output.is_json() {
        session.output.json(&RecordJson::of(&record))?;
        return Ok(Exit::Done);
    }
    let expires = record.expires_at.map(|at| format!(", expires {at}")).unwrap_or_default();
    session.note(&format!("version {}, written {}{expires}", record.version, record.written_at));
    session.output.line(content::readable(&record.value))?;
    Ok(Exit::Done)
}

async fn put(session: &mut Session, args: &RecordsPutArgs) -> anyhow::Result<Exit> {
    let value = value(&args.value)?;
    let client = session.open(Access::Create).await?;
    let RecordsGetArgs { queue, key } = &args.record;
    let records = client.records(queue)?;
    let mut put = records.put(key, &value);
    if let Some(version) = args.if_version {
        put = put.if_version(version);
    }
    if args.if_absent {
        put = put.if_absent();
    }
    if let Some(ttl) = args.ttl {
        put = put.ttl(ttl);
    }
    let version = match put.await {
        Err(error) if error.is_conflict() => return Err(conflict(&records, key).await.into()),
        answer => answer?,
    };
    if session.output.is_json() {
        session.output.json(&Written { key, version: version.to_string() })?;
    } else {
        session.output.line(format_args!("{} has version {version}", clean::line(key.as_str())))?;
    }
    Ok(Exit::Done)
}

/// The value as it was given, digit by digit.
fn value(given: &str) -> anyhow::Result<Box<RawValue>> {
    let bytes = enqueue::payload(Some(given), true)?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Fault::usage(format!("the value is not JSON: {error}; a text is in double quotes, as '\"text\"'"))
            .into()
    })
}

async fn remove(session: &mut Session, args: &RecordsRemoveArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let RecordsGetArgs { queue, key } = &args.record;
    let records = client.records(queue)?;
    let Some(record) = records.get_raw(key).await? else {
        return missing(session, &client, &args.record).await;
    };
    let version: Version = args.if_version.unwrap_or(record.version);
    let removed = match args.if_version {
        Some(_) => records.remove_version(key, version).await,
        None => records.remove(key).await,
    };
    match removed {
        Err(error) if error.is_conflict() => return Err(conflict(&records, key).await.into()),
        answer => answer?,
    }
    if session.output.is_json() {
        session.output.json(&Gone { key, removed: true })?;
    } else {
        session.output.line(format_args!("removed {}", clean::line(key.as_str())))?;
    }
    Ok(Exit::Done)
}

/// Says that there is no such record; of an unknown queue that it is none.
async fn missing(session: &Session, client: &Client, args: &RecordsGetArgs) -> anyhow::Result<Exit> {
    let queue: &Name = &args.queue;
    known::check_queue(client, queue).await?;
    session.complain(&format!("queue {queue} has no record {}", clean::line(args.key.as_str())));
    Ok(Exit::NotFound)
}

async fn conflict(records: &Records, key: &RecordKey) -> Fault {
    let found = match records.get_raw(key).await {
        Ok(Some(record)) => format!("it has version {}", record.version),
        Ok(None) => "there is none".to_owned(),
        Err(_) => "it was written meanwhile".to_owned(),
    };
    Fault::failed(format!("the record {} is not as expected: {found}; nothing was changed", key.as_str()))
}
