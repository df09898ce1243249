//! Tokens that were asked for lately, so that a request costs no store call. What is revoked elsewhere is heeded when the
//! knowledge is too old.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_worker::{Client, Result};

use super::sessions::{Session, Sessions};
use super::tokens::Stored;
use super::{Caller, Means, Secret, Tokens};

/// How long a token is taken for what it was.
const FRESH: Duration = Duration::from_secs(5);
/// The most tokens that are remembered; beyond that all are forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// Tokens and sessions by id.
#[derive(Debug)]
pub(crate) struct Known {
    tokens: Tokens,
    sessions: Sessions,
    known: Seen<Stored>,
    begun: Seen<Session>,
}

impl Known {
    pub(crate) fn new(client: &Client) -> Self {
        let (tokens, sessions) = (Tokens::new(client), Sessions::new(client));
        Self { tokens, sessions, known: Mutex::default(), begun: Mutex::default() }
    }

    /// Who this text stands for; nothing for a text that is not a token which holds.
    pub(crate) async fn caller(&self, text: &str) -> Result<Option<Caller>> {
        let Some(secret) = Secret::read(text) else { return Ok(None) };
        let stored = self.stored(&secret.id).await?;
        Ok(stored.filter(|stored| secret.has_hash(&stored.hash)).map(|stored| caller(&stored, Means::Bearer)))
    }

    /// Who the session of this cookie is of; nothing for one that has ended, or whose token no longer holds.
    pub(crate) async fn caller_of_session(&self, cookie: &str) -> Result<Option<Caller>> {
        let Some(secret) = Secret::read(cookie) else { return Ok(None) };
        let session = self.session(&secret.id).await?.filter(|session| secret.has_hash(&session.hash));
        let Some(session) = session else { return Ok(None) };
        let means = Means::Session { csrf: secret.csrf().into() };
        Ok(self.stored(&session.token).await?.map(|stored| caller(&stored, means)))
    }

    /// Begins a session for a token that holds; nothing for another text. Answers the text of its cookie.
    pub(crate) async fn begin_session(&self, token: &str) -> Result<Option<(Caller, String)>> {
        let Some(token) = Secret::read(token) else { return Ok(None) };
        let stored = self.stored(&token.id).await?.filter(|stored| token.has_hash(&stored.hash));
        let Some(stored) = stored else { return Ok(None) };
        let secret = self.sessions.begin(&token.id).await?;
        let means = Means::Session { csrf: secret.csrf().into() };
        Ok(Some((caller(&stored, means), secret.reveal())))
    }

    /// Ends a session.
    pub(crate) async fn end_session(&self, cookie: &str) -> Result<()> {
        let Some(secret) = Secret::read(cookie) else { return Ok(()) };
        lock(&self.begun).remove(&secret.id);
        self.sessions.end(&secret.id).await
    }

    async fn stored(&self, id: &str) -> Result<Option<Stored>> {
        if let Some(stored) = fresh(&self.known, id) {
            return Ok(stored);
        }
        let stored = self.tokens.stored(id).await?;
        remember(&self.known, id, stored.clone());
        Ok(stored)
    }

    async fn session(&self, id: &str) -> Result<Option<Session>> {
        if let Some(session) = fresh(&self.begun, id) {
            return Ok(session);
        }
        let session = self.sessions.get(id).await?;
        remember(&self.begun, id, session.clone());
        Ok(session)
    }

    /// A token was changed by this server.
    pub(crate) fn forget(&self, id: &str) {
        lock(&self.known).remove(id);
    }
}

type Seen<T> = Mutex<HashMap<String, (Option<T>, Instant)>>;

fn lock<T>(seen: &Seen<T>) -> MutexGuard<'_, HashMap<String, (Option<T>, Instant)>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fresh<T: Clone>(seen: &Seen<T>, id: &str) -> Option<Option<T>> {
    lock(seen).get(id).filter(|(_, at)| at.elapsed() < FRESH).map(|(found, _)| found.clone())
}

fn remember<T>(seen: &Seen<T>, id: &str, found: Option<T>) {
    let mut seen = lock(seen);
    if seen.len() >= REMEMBERED_MAX {
        seen.clear();
    }
    seen.insert(id.to_owned(), (found, Instant::now()));
}

fn caller(stored: &Stored, means: Means) -> Caller {
    let queues = (!stored.queues.is_empty()).then(|| stored.queues.as_slice().into());
    Caller { name: stored.name.as_str().into(), role: stored.role, queues, means }
}
