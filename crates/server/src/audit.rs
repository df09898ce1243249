//! Who changed what: a record for each change that came by the API, in the server's own queue, written before the change and
//! once more with its outcome. So a change that took effect has a record, also where the server died in between.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::clock::Timestamp;
use windlass_core::record::{Record, RecordKey};
use windlass_worker::{Client, Records, Result};

use crate::access::{Caller, HOME, Means, Role, digest};

/// How the keys of entries begin. What follows counts down with time, so that the newest come first.
const PREFIX: &str = "audit/";
/// How long entries are kept.
const KEPT: Duration = Duration::from_secs(90 * 24 * 3600);
/// Characters of a path, a query or a detail that are kept.
const TEXT_MAX: usize = 500;
/// Entries of one page.
const PAGE_MAX: u32 = 1_000;

/// A change that came by the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditEntry {
    v: u32,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// The name of the token.
    pub actor: String,
    /// What it permits.
    pub role: Role,
    /// How the caller has shown who it is: `open`, `token` or `session`.
    pub means: String,
    /// What was asked for, as the API document names it.
    pub action: String,
    /// The method and the path.
    pub request: String,
    /// The HTTP status of the answer; nothing where the server did not come to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What else is worth to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What a handler adds to the entry of its request, as an extension of its response.
#[derive(Debug, Clone)]
pub(crate) struct Detail(pub(crate) String);

/// Entries of a page, the newest first.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AuditPage {
    /// The entries.
    pub entries: Vec<AuditEntry>,
    /// After which the next page begins; nothing at the end.
    pub next: Option<RecordKey>,
}

/// The audit of a store.
#[derive(Debug, Clone)]
pub struct AuditLog {
    client: Client,
}

impl AuditLog {
    /// That of this client's store.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    fn records(&self) -> Result<Records> {
        self.client.records(HOME)
    }

    /// Entries, the newest first, after a place that a page has named.
    ///
    /// # Errors
    /// The store's.
    pub async fn page(&self, after: Option<&RecordKey>, limit: u32) -> Result<AuditPage> {
        let page = self.records()?.list(PREFIX, after, limit.clamp(1, PAGE_MAX)).await?;
        Ok(AuditPage { entries: page.records.iter().filter_map(read).collect(), next: page.next })
    }

    /// Writes that a change is about to be made. Nothing on a store that keeps no records.
    pub(crate) async fn begin(&self, caller: &Caller, action: &str, request: &str) -> Result<Option<Begun>> {
        if self.client.store().records().is_none() {
            return Ok(None);
        }
        let at = self.client.store().now().await?;
        let means = match caller.means {
            Means::Open => "open",
            Means::Bearer => "token",
            Means::Session { .. } => "session",
        };
        let entry = AuditEntry {
            v: 1,
            at,
            actor: bounded(&caller.name),
            role: caller.role,
            means: means.to_owned(),
            action: action.to_owned(),
            request: bounded(request),
            status: None,
            detail: None,
        };
        let begun = Begun { key: key(at), entry };
        self.write(&begun).await?;
        Ok(Some(begun))
    }

    /// Writes what became of it. If that fails, the entry stays without an outcome.
    pub(crate) async fn end(&self, mut begun: Begun, status: u16, detail: Option<&Detail>) {
        begun.entry.status = Some(status);
        begun.entry.detail = detail.map(|detail| bounded(&detail.0));
        if let Err(error) = self.write(&begun).await {
            tracing::warn!(%error, "the outcome of a change is missing in the audit");
        }
    }

    async fn write(&self, begun: &Begun) -> Result<()> {
        self.records()?.put(&begun.key, &begun.entry).ttl(KEPT).await.map(drop)
    }
}

/// An entry without an outcome.
#[derive(Debug)]
pub(crate) struct Begun {
    key: String,
    entry: AuditEntry,
}

/// A key that no other change has and that comes before those of earlier changes.
fn key(at: Timestamp) -> String {
    let mut random = [0_u8; 8];
    // Without randomness the instant must do; two changes of one microsecond would share an entry.
    let _ = getrandom::fill(&mut random);
    let text = random.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{PREFIX}{:016x}-{}", i64::MAX - at.as_micros(), &digest(&[&text])[..8])
}

fn read(record: &Record) -> Option<AuditEntry> {
    serde_json::from_slice(&record.value).ok()
}

fn bounded(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect()
}
