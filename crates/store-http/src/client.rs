//! The store that calls a server. Opened by its URL; a worker on it works as on any other store.
//!
//! Calls run on a thread of the store's own, to their end (`windlass_store_server::remote`), with connections of their own
//! for leases. An answer that was lost leaves a write unknown; what only the server itself can say (a refusal) is taken from
//! nothing that stands before it, as a proxy.

mod answer;
mod connect;
mod listen;
mod options;
mod parts;

use std::future::Future;
use std::sync::OnceLock;

use windlass_core::bell::Bell;
use windlass_core::store::{About, Checkup, Records, Store, StoreResult, Tallies};
use windlass_core::{Bytes, StoreError};
use windlass_store_server::remote::{Call, Remote};

use crate::wire::{BODY_MAX, Sort, VERSION, Verb, verbs};
use connect::Pools;
pub use options::{HttpOptions, Token};

/// A store behind a Windlass server.
pub struct HttpStore {
    remote: Remote<Pools>,
    about: About,
    has_records: bool,
    has_checkup: bool,
    has_tallies: bool,
    bell: Bell,
    listener: OnceLock<()>,
}

impl HttpStore {
    /// Opens the store at `http://host:port` or `https://host`; see [`HttpOptions::of_url`].
    ///
    /// # Errors
    /// When the URL makes no sense, or no server of this wire answers there.
    pub async fn open(url: &str) -> StoreResult<Self> {
        Self::open_with(HttpOptions::of_url(url)?).await
    }

    /// Opens it with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(options: HttpOptions) -> StoreResult<Self> {
        let (scheme, place) = (options.scheme(), options.place());
        let remote =
            Remote::start("windlass-http", move || Pools::new(&options), async |_: &Pools| {}).await?;
        let found = ask(&remote, verbs::Ask {}).await?;
        if found.wire != VERSION {
            return Err(StoreError::Address(format!(
                "the server at {place} speaks version {} of this wire, this program version {VERSION}: upgrade the older",
                found.wire
            )));
        }
        let verbs::StoreAbout { scheme: kind, durability, sharing, records, checkup, tallies, .. } = found;
        let about = About { scheme, place: format!("{place}, {kind}"), durability, sharing };
        let (bell, listener) = (Bell::new(), OnceLock::new());
        Ok(Self {
            remote,
            about,
            has_records: records,
            has_checkup: checkup,
            has_tallies: tallies,
            bell,
            listener,
        })
    }

    /// Makes a call.
    fn ask<V: Verb>(&self, verb: V) -> impl Future<Output = StoreResult<V::Answer>> + Send + use<V> {
        ask(&self.remote, verb)
    }

    /// The bell of this process. The first call makes ready to hear of the server; a stream is open only while a caller
    /// waits for something.
    fn heard_bell(&self) -> &Bell {
        self.listener.get_or_init(|| {
            let (connections, bell) = (self.remote.connections().clone(), self.bell.clone());
            self.remote.spawn_background(listen::run(connections, bell));
        });
        &self.bell
    }
}

fn ask<V: Verb>(
    remote: &Remote<Pools>,
    verb: V,
) -> impl Future<Output = StoreResult<V::Answer>> + Send + use<V> {
    let (remote, body) = (remote.clone(), written(&verb));
    async move {
        let body = body?;
        remote.call(call_of::<V>(), move |_, line| async move { line.ask::<V>(body).await }).await
    }
}

fn written<V: Verb>(verb: &V) -> StoreResult<Bytes> {
    let body = serde_json::to_vec(verb).map_err(|error| StoreError::Internal {
        what: format!("a call cannot be written: {error}"),
        source: None,
    })?;
    if body.len() > BODY_MAX {
        let text = format!("{} bytes in one call, at most {BODY_MAX} travel: make several calls", body.len());
        return Err(StoreError::Refused(text));
    }
    Ok(body.into())
}

const fn call_of<V: Verb>() -> Call {
    match V::SORT {
        Sort::Read => Call::READ,
        Sort::Work | Sort::Change | Sort::Remove => Call::WRITE,
        Sort::Lease => Call::LEASE,
    }
}

impl Store for HttpStore {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn finishes_calls(&self) -> bool {
        true
    }

    fn checkup(&self) -> Option<&dyn Checkup> {
        self.has_checkup.then_some(self)
    }

    fn tallies(&self) -> Option<&dyn Tallies> {
        self.has_tallies.then_some(self)
    }

    fn records(&self) -> Option<&dyn Records> {
        self.has_records.then_some(self)
    }
}
