//! The router, asked without a socket, on the memory store.

mod document;
mod doors;
mod hostile;
mod jobs;
mod nouns;
mod seen;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use windlass_core::Name;
use windlass_store_memory::MemoryStore;
use windlass_worker::Client;

use crate::access::{Access, NewToken, Role, Tokens};
use crate::server::Server;

/// A router, and what it is about.
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) router: axum::Router,
}

/// An answer.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The code of a problem.
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{}", self.text);
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Scene {
    /// A server that asks for no token.
    pub(crate) fn open() -> Self {
        Self::with(Access::Open)
    }

    /// A server that asks for tokens.
    pub(crate) fn closed() -> Self {
        Self::with(Access::Tokens)
    }

    fn with(access: Access) -> Self {
        let client = Client::new(Arc::new(MemoryStore::new()));
        let router = Server::new(&client).access(access).hosts(Vec::<String>::new()).router();
        Self { client, router }
    }

    /// The text of a token.
    pub(crate) async fn token(&self, role: Role, queues: &[&str]) -> String {
        let queues = queues.iter().map(|queue| Name::new(queue).unwrap());
        let token = NewToken::new(role.as_str(), role).queues(queues);
        Tokens::new(&self.client).create(token).await.unwrap().1
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response: Response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Reply { status: parts.status, headers: parts.headers, text }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(request(&Method::GET, path).body(Body::empty()).unwrap()).await
    }

    /// With a JSON body.
    pub(crate) async fn call(&self, method: Method, path: &str, body: &Value) -> Reply {
        let request = request(&method, path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.call(Method::POST, path, body).await
    }
}

pub(crate) fn request(method: &Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header("host", "localhost:8080")
}
