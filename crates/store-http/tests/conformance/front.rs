//! A server of few lines: what `windlass-server` does for these calls, without tokens and bounds.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use windlass_core::store::SharedStore;
use windlass_store_http::serve::{Allowed, Grant, Refusal, Ringing, answer, pass};
use windlass_store_http::wire::{LISTEN, PASS, PATH};

type Body = BoxBody<Bytes, Infallible>;

/// A server that ends when this is dropped.
pub(crate) struct Front {
    port: u16,
    accepting: JoinHandle<()>,
    is_mute: Arc<AtomicBool>,
}

impl Front {
    pub(crate) async fn start(store: SharedStore) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_mute = Arc::new(AtomicBool::new(false));
        let mute = Arc::clone(&is_mute);
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (store, mute) = (Arc::clone(&store), Arc::clone(&mute));
                let service = service_fn(move |request| {
                    let (store, mute) = (Arc::clone(&store), Arc::clone(&mute));
                    async move {
                        let response = respond(store, request).await;
                        if mute.swap(false, Ordering::Relaxed) {
                            return Err(io::Error::other("the answer is lost"));
                        }
                        Ok(response)
                    }
                });
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { port, accepting, is_mute }
    }

    /// Makes the next call and breaks the connection instead of answering it.
    pub(crate) fn lose_next_answer(&self) {
        self.is_mute.store(true, Ordering::Relaxed);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn whole(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    Response::builder().status(status).body(Full::new(body.into()).boxed()).unwrap()
}

async fn respond(store: SharedStore, request: Request<Incoming>) -> Response<Body> {
    let caller = Grant { may: Allowed::Remove, queues: None, closed: "windlass.server".parse().unwrap() };
    let verb = request.uri().path().strip_prefix(PATH).unwrap_or_default().to_owned();
    let Ok(body) = request.into_body().collect().await else {
        return whole(StatusCode::BAD_REQUEST, Vec::new());
    };
    let body = body.to_bytes();
    if verb == LISTEN {
        let mut ringing = Ringing::new(&*store, &caller, &serde_json::from_slice(&body).unwrap()).unwrap();
        let (mut lines, body) = Channel::<Bytes, Infallible>::new(1);
        tokio::spawn(async move {
            loop {
                let line = ringing.next(Duration::from_secs(1)).await;
                if lines.send_data(line.into()).await.is_err() {
                    return;
                }
            }
        });
        return Response::new(body.boxed());
    }
    if verb == PASS {
        pass(store.bell(), &caller, &serde_json::from_slice(&body).unwrap());
        return whole(StatusCode::OK, b"null".to_vec());
    }
    let called = tokio::spawn(async move { answer(&*store, &caller, &verb, &body).await }).await.unwrap();
    match called {
        Ok(body) => whole(StatusCode::OK, body),
        Err(refusal) => {
            let status = match &refusal {
                Refusal::NoVerb => StatusCode::NOT_FOUND,
                Refusal::Malformed(_) => StatusCode::BAD_REQUEST,
                Refusal::Forbidden(_) => StatusCode::FORBIDDEN,
                Refusal::Store(_) => StatusCode::CONFLICT,
            };
            whole(status, serde_json::to_vec(&serde_json::json!({ "store": refusal.problem() })).unwrap())
        }
    }
}
