//! The connections to a server, and one request over them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use windlass_core::Bytes;
use windlass_core::store::StoreResult;
use windlass_store_server::error::{Fault, Unreachable};
use windlass_store_server::remote::{Connections, Purpose, Session};
use windlass_store_server::tls;

use super::answer;
use super::options::HttpOptions;
use crate::wire::{PATH, Sort, Verb};

/// The largest answer that is read: more than any that a server sends.
const ANSWER_MAX: usize = 256 << 20;
/// Calls about leases at once.
const LEASE_POOL: usize = 4;
/// How long a connection that is not used is kept; servers mostly close theirs after a minute or more.
const IDLE: Duration = Duration::from_secs(45);
/// How long connecting may take at most.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));

type Http = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The connections of a store.
pub(crate) struct Pools {
    work: Pool,
    lease: Pool,
    target: Arc<Target>,
    timeout: Duration,
}

/// Connections for one purpose, used by so many calls at once.
struct Pool {
    http: Http,
    free: Arc<Semaphore>,
}

/// Where requests go, and what each carries.
struct Target {
    base: String,
    token: Option<HeaderValue>,
}

impl Pools {
    /// Nothing is connected yet. Reads the certificates to trust, where TLS is used.
    pub(super) fn new(options: &HttpOptions) -> StoreResult<Self> {
        let roots = match options.scheme() {
            "https" => tls::roots(options.ca.as_deref(), "ca")?,
            _ => rustls::RootCertStore::empty(),
        };
        let tls = tls::builder(tls::provider())?.with_root_certificates(roots).with_no_client_auth();
        let pool = |size: usize| {
            let mut tcp = HttpConnector::new();
            tcp.enforce_http(false);
            tcp.set_nodelay(true);
            tcp.set_connect_timeout(Some(CONNECT_MAX.min(options.timeout / 2)));
            let connector = HttpsConnectorBuilder::new()
                .with_tls_config(tls.clone())
                .https_or_http()
                .enable_http1()
                .wrap_connector(tcp);
            let mut builder = Client::builder(TokioExecutor::new());
            builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(size);
            Pool { http: builder.build(connector), free: Arc::new(Semaphore::new(size)) }
        };
        let token = options.token.as_ref().map(super::Token::header);
        let target = Arc::new(Target { base: options.base.clone(), token });
        Ok(Self { work: pool(options.pool), lease: pool(LEASE_POOL), target, timeout: options.timeout })
    }

    /// A line for a stream, which holds up no call.
    pub(super) fn stream(&self) -> Post {
        Post {
            http: self.lease.http.clone(),
            target: Arc::clone(&self.target),
            sent: Arc::default(),
            _permit: None,
        }
    }
}

impl Connections for Pools {
    type Session = Post;

    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn lend(self: &Arc<Self>, purpose: Purpose, deadline: Duration) -> Result<Post, Unreachable> {
        let pool = match purpose {
            Purpose::Lease => &self.lease,
            Purpose::Work | Purpose::Replicas => &self.work,
        };
        let free = timeout(deadline, Arc::clone(&pool.free).acquire_owned()).await;
        let permit = free.ok().and_then(Result::ok).map(Arc::new).ok_or_else(|| {
            Unreachable::passing(format!("other calls have all connections to the server since {deadline:?}"))
        })?;
        let (http, target) = (pool.http.clone(), Arc::clone(&self.target));
        Ok(Post { http, target, sent: Arc::default(), _permit: Some(permit) })
    }
}

/// A way to make one request.
#[derive(Clone)]
pub(crate) struct Post {
    http: Http,
    target: Arc<Target>,
    sent: Arc<AtomicBool>,
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Session for Post {
    fn has_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Post {
    /// Makes a call.
    pub(super) async fn ask<V: Verb>(&self, body: Bytes) -> Result<V::Answer, Fault> {
        let response = self.send(V::NAME, body).await?;
        let status = response.status();
        let bytes = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
        let bytes = bytes.map(http_body_util::Collected::to_bytes).map_err(|error| {
            if error.is::<LengthLimitError>() {
                return Fault::Lost(format!("the answer of the server has more than {ANSWER_MAX} bytes"));
            }
            Fault::broken(&error.to_string())
        })?;
        if !status.is_success() {
            return Err(answer::fault(status, &bytes, self.target.token.is_some()));
        }
        serde_json::from_slice(&bytes).map_err(|error| match V::SORT {
            Sort::Read => Fault::Corrupt(format!("the answer of the server does not read: {error}")),
            _ => Fault::Defect(format!("the answer of the server does not read: {error}")).partial(),
        })
    }

    /// Sends a request, and answers the beginning of what comes back.
    pub(super) async fn send(&self, verb: &str, body: Bytes) -> Result<Response<Incoming>, Fault> {
        let mut request = Request::post(format!("{}{PATH}{verb}", self.target.base))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, AGENT);
        if let Some(token) = &self.target.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let request = request.body(Full::new(body)).map_err(|error| Fault::Defect(error.to_string()))?;
        // From here on, whether a byte has gone out is known only when it failed.
        self.sent.store(true, Ordering::Relaxed);
        self.http.request(request).await.map_err(|error| fault(&error))
    }
}

/// What a failure to send means: a request that had no connection did not go out.
fn fault(error: &Error) -> Fault {
    let cause = causes(error);
    if !error.is_connect() {
        return Fault::broken(&cause);
    }
    let unreachable = Unreachable::because("cannot connect to the server", &cause);
    let is_lasting = ["certificate", "dns error"].iter().any(|word| cause.contains(word));
    if is_lasting { unreachable.lasting().into() } else { unreachable.into() }
}

/// What lies beneath an error, from the outside to the inside.
fn causes(error: &dyn std::error::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Some repeat what they wrap.
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        source = cause.source();
    }
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
}
