//! `/readyz`: whether the server can answer for its store, as load balancers ask it. Open to all, so it says nothing else, and
//! costs the store one read by key, once a second at most, however many ask.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use windlass_core::record::RecordKey;
use windlass_core::store::StoreResult;
use windlass_core::{Name, Store};
use windlass_worker::Client;

use crate::access::HOME;
use crate::app::App;

/// For how long an answer of the store is good enough.
const FRESH: Duration = Duration::from_secs(1);
/// How long the store may take.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// When the store was asked, and whether it answered.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<(Instant, bool)>>,
}

impl Readiness {
    /// Whether the store answers. Who comes while it is asked waits for that answer.
    pub(crate) async fn answers(&self, client: &Client) -> bool {
        let mut last = self.last.lock().await;
        if let Some((at, answers)) = *last
            && at.elapsed() < FRESH
        {
            return answers;
        }
        // In a future of its own: a caller that goes away interrupts no call.
        let store = Arc::clone(client.store());
        let asked = timeout(WAIT_MAX, tokio::spawn(async move { ask(&*store).await })).await;
        let answers = matches!(asked, Ok(Ok(Ok(()))));
        *last = Some((Instant::now(), answers));
        answers
    }
}

/// One read by key, which no store answers from memory of its own.
async fn ask(store: &dyn Store) -> StoreResult<()> {
    match (store.records(), Name::new(HOME), RecordKey::new("ready")) {
        (Some(records), Ok(home), Ok(key)) => records.read(&home, [key].into()).await.map(drop),
        _ => store.now().await.map(drop),
    }
}

pub(crate) async fn ready(State(app): State<App>) -> (StatusCode, &'static str) {
    match app.readiness().answers(app.client()).await {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n"),
    }
}
