//! Records: small values that a queue keeps beside its jobs.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use windlass_core::record::{Record, RecordKey, Version};
use windlass_core::{Name, forms};
use windlass_worker::Records;

use crate::access::{Caller, Role};
use crate::app::App;
use crate::extract::{At, Body, Query};
use crate::problem::{Answer, Code, Problem};
use crate::wire::{Content, Encoding, Instant, Page, Span, limit};

/// Which records.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only keys that begin with this.
    prefix: Option<String>,
    /// The key after which the page begins.
    after: Option<String>,
    /// How many at most; larger ones than 1,000 are lowered to it.
    #[param(default = 50)]
    limit: Option<u64>,
}

/// On which condition a record is removed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveParams {
    /// Only if it still has this version.
    if_version: Option<String>,
}

/// A record.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Record)]
pub(crate) struct RecordView {
    /// Its key.
    key: String,
    /// Its version: another one after each write.
    version: String,
    /// Its value.
    #[schema(value_type = serde_json::Value)]
    value: Option<Box<RawValue>>,
    /// How that is to be read.
    value_encoding: Encoding,
    /// When it was written.
    written_at: Instant,
    /// When it is gone.
    expires_at: Option<Instant>,
}

/// A value to be put.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRecord)]
pub(crate) struct RecordForm {
    /// Any JSON.
    #[schema(value_type = serde_json::Value)]
    value: Box<RawValue>,
    /// It is gone after this long.
    ttl: Option<Span>,
    /// Only if the record still has this version.
    if_version: Option<String>,
    /// Only if there is none.
    #[serde(default)]
    if_absent: bool,
}

/// A record that was written.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WrittenRecord {
    /// Its key.
    key: String,
    /// Its version now; nothing where it was removed.
    version: Option<String>,
}

impl RecordView {
    fn of(record: &Record) -> Self {
        let Content { value, encoding } = Content::of(&record.value);
        Self {
            key: record.key.as_str().to_owned(),
            version: record.version.to_string(),
            value,
            value_encoding: encoding,
            written_at: Instant(record.written_at),
            expires_at: record.expires_at.map(Instant),
        }
    }
}

/// The records of a queue that the caller may reach.
async fn opened(app: &App, caller: &Caller, queue: &Name) -> Result<Records, Problem> {
    caller.on(queue)?;
    if app.client().store().records().is_none() {
        return Err(Code::Unsupported.because("this store keeps no records"));
    }
    // Logs and edits are records, too.
    if app.masks().are_on(app.client(), queue).await? {
        caller.needs(Role::Operator)?;
    }
    Ok(app.client().records(queue)?)
}

fn key(text: &str) -> Result<RecordKey, Problem> {
    RecordKey::new(text).map_err(|error| Problem::invalid("key", error))
}

fn version(at: &str, text: Option<&str>) -> Result<Option<Version>, Problem> {
    text.map(forms::version).transpose().map_err(|why| Problem::invalid(at, why))
}

fn missing(queue: &Name, key: &RecordKey) -> Problem {
    Problem::missing(format!("queue {queue} has no record {:?}", key.as_str()))
}

/// The records of a queue, by key.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/records", tag = "records", params(("queue" = String, Path, description = "The queue."), ListParams), responses((status = 200, description = "A page of records.", body = Page<RecordView>)))]
pub(crate) async fn list_records(
    State(app): State<App>,
    caller: Caller,
    At(queue): At<Name>,
    Query(params): Query<ListParams>,
) -> Answer<Page<RecordView>> {
    let records = opened(&app, &caller, &queue).await?;
    let after = params.after.as_deref().map(RecordKey::new).transpose();
    let after = after.map_err(|error| Problem::invalid("after", error))?;
    let prefix = params.prefix.as_deref().unwrap_or_default();
    if !prefix.is_empty() {
        // A text that cannot be a key cannot begin one.
        RecordKey::new(prefix).map_err(|error| Problem::invalid("prefix", error))?;
    }
    let page = records.list(prefix, after.as_ref(), limit(params.limit)).await?;
    let next = page.next.map(|key| key.as_str().to_owned());
    Ok(Json(Page::new(page.records.iter().map(RecordView::of).collect(), next)))
}

/// A record.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/records/{key}", tag = "records", params(("queue" = String, Path, description = "The queue."), ("key" = String, Path, description = "The key, percent-encoded.")), responses((status = 200, description = "The record.", body = RecordView)))]
pub(crate) async fn get_record(
    State(app): State<App>,
    caller: Caller,
    At((queue, text)): At<(Name, String)>,
) -> Answer<RecordView> {
    let (records, key) = (opened(&app, &caller, &queue).await?, key(&text)?);
    let record = records.get_raw(&key).await?.ok_or_else(|| missing(&queue, &key))?;
    Ok(Json(RecordView::of(&record)))
}

/// Puts a value, perhaps on a condition; where that does not hold, nothing is written.
#[utoipa::path(put, path = "/api/v1/queues/{queue}/records/{key}", tag = "records", params(("queue" = String, Path, description = "The queue."), ("key" = String, Path, description = "The key, percent-encoded.")), request_body = RecordForm, responses((status = 200, description = "It is written.", body = WrittenRecord)))]
pub(crate) async fn put_record(
    State(app): State<App>,
    caller: Caller,
    At((queue, text)): At<(Name, String)>,
    Body(form): Body<RecordForm>,
) -> Answer<WrittenRecord> {
    let (records, key) = (opened(&app, &caller, &queue).await?, key(&text)?);
    let version = version("if_version", form.if_version.as_deref())?;
    if version.is_some() && form.if_absent {
        return Err(Problem::invalid("if_absent", "say if_version or if_absent, not both"));
    }
    let mut put = records.put(&key, &form.value);
    if let Some(version) = version {
        put = put.if_version(version);
    }
    if form.if_absent {
        put = put.if_absent();
    }
    if let Some(ttl) = form.ttl {
        put = put.ttl(ttl.0);
    }
    let version = put.await?;
    Ok(Json(WrittenRecord { key: text, version: Some(version.to_string()) }))
}

/// Removes a record, perhaps on a condition.
#[utoipa::path(delete, path = "/api/v1/queues/{queue}/records/{key}", tag = "records", params(("queue" = String, Path, description = "The queue."), ("key" = String, Path, description = "The key, percent-encoded."), RemoveParams), responses((status = 200, description = "It is gone.", body = WrittenRecord)))]
pub(crate) async fn remove_record(
    State(app): State<App>,
    caller: Caller,
    At((queue, text)): At<(Name, String)>,
    Query(params): Query<RemoveParams>,
) -> Answer<WrittenRecord> {
    let (records, key) = (opened(&app, &caller, &queue).await?, key(&text)?);
    let version = version("if_version", params.if_version.as_deref())?;
    if records.get_raw(&key).await?.is_none() {
        return Err(missing(&queue, &key));
    }
    match version {
        Some(version) => records.remove_version(&key, version).await?,
        None => records.remove(&key).await?,
    }
    Ok(Json(WrittenRecord { key: text, version: None }))
}
