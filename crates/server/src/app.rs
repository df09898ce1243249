//! What all requests share: the client, who is known, the bounds, and what is held of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use windlass_worker::{Client, Metrics};

use crate::access::{Access, Known, Logins};
use crate::audit::AuditLog;
use crate::bounds::Bounds;
use crate::hosts::Hosts;
use crate::masks::Masks;
use crate::problem::{Code, Problem};
use crate::ready::Readiness;

/// The state of a server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    access: Access,
    hosts: Hosts,
    bounds: Bounds,
    is_secure: bool,
    known: Known,
    masks: Masks,
    logins: Logins,
    audit: AuditLog,
    metrics: Metrics,
    readiness: Readiness,
    bodies: AtomicUsize,
    streams: Arc<Semaphore>,
    stopping: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(
        client: &Client,
        access: Access,
        hosts: Hosts,
        bounds: Bounds,
        is_secure: bool,
    ) -> Self {
        // A client that counts already goes on there: what comes by the server is part of what its program does.
        let metrics = client.metrics().cloned().unwrap_or_else(Metrics::from_env);
        let client = &client.with_metrics(&metrics);
        let shared = Shared {
            client: client.clone(),
            access,
            hosts,
            is_secure,
            known: Known::new(client),
            masks: Masks::default(),
            logins: Logins::default(),
            audit: AuditLog::new(client),
            metrics,
            readiness: Readiness::default(),
            bodies: AtomicUsize::new(0),
            streams: Arc::new(Semaphore::new(bounds.streams)),
            stopping: watch::Sender::new(false),
            bounds,
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.shared.client
    }

    pub(crate) fn access(&self) -> Access {
        self.shared.access
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.shared.hosts
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.shared.bounds
    }

    /// Whether requests come by TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.shared.is_secure
    }

    pub(crate) fn known(&self) -> &Known {
        &self.shared.known
    }

    pub(crate) fn logins(&self) -> &Logins {
        &self.shared.logins
    }

    pub(crate) fn masks(&self) -> &Masks {
        &self.shared.masks
    }

    pub(crate) fn audit(&self) -> &AuditLog {
        &self.shared.audit
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.shared.readiness
    }

    /// Bytes that a request is about to hold.
    pub(crate) fn hold(&self) -> Held {
        Held { app: self.clone(), bytes: 0 }
    }

    /// A place for a stream or a long poll, which it keeps while it lives.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.shared.streams).try_acquire_owned().map_err(|_full| {
            Code::Busy.because("as many streams and long polls are open as may be").remedy("try again later")
        })
    }

    /// Ends when the server stops: a stream or a long poll then ends, too.
    pub(crate) async fn stopping(&self) {
        let mut stopping = self.shared.stopping.subscribe();
        // The sender lives as long as this does.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Tells streams and long polls to end.
    pub(crate) fn stop(&self) {
        self.shared.stopping.send_replace(true);
    }
}

/// Bytes that a request holds, given back when this is dropped.
pub(crate) struct Held {
    app: App,
    bytes: usize,
}

impl Held {
    /// So many more.
    pub(crate) fn more(&mut self, bytes: usize) -> Result<(), Problem> {
        let held = self.app.shared.bodies.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.bytes += bytes;
        if held > self.app.shared.bounds.bodies {
            return Err(Code::Busy.because("too many large requests at once").remedy("try again"));
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.app.shared.bodies.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
