//! A receiver of OTLP over HTTP in JSON, and a client for the exporter that speaks to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use serde_json::Value;

/// Listens on a free port of this machine, and keeps every span that comes.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
}

/// A span as it came.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) kind: u64,
    pub(crate) links: Vec<String>,
    pub(crate) attributes: Vec<(String, Value)>,
    pub(crate) starts: u64,
    pub(crate) ends: u64,
}

impl Span {
    /// The value of an attribute, as text.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        let value = &self.attributes.iter().find(|(name, _)| name == key)?.1;
        let found = ["stringValue", "intValue"].into_iter().find_map(|kind| value.get(kind))?;
        Some(found.as_str().map_or_else(|| found.to_string(), str::to_owned))
    }
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let spans = Arc::<Mutex<Vec<Span>>>::default();
        let kept = Arc::clone(&spans);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let body = body(&read_head(&mut stream), &mut stream);
                let body: Value = serde_json::from_slice(&body).expect("JSON");
                kept.lock().expect("no panic").extend(spans_of(&body));
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
                    .expect("sent");
            }
        });
        Self { address, spans }
    }

    /// The spans of a trace.
    pub(crate) fn spans(&self, trace: &str) -> Vec<Span> {
        let spans = self.spans.lock().expect("no panic");
        spans.iter().filter(|span| span.trace == trace).cloned().collect()
    }
}

fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.extend(byte);
    }
    String::from_utf8(head).expect("text")
}

fn body(head: &str, stream: &mut TcpStream) -> Vec<u8> {
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:").map(str::to_owned));
    let length = length.expect("a length").trim().parse().expect("a number");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("as long as it says");
    body
}

fn spans_of(body: &Value) -> Vec<Span> {
    let all = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let number =
        |of: &Value, key: &str| of[key].as_str().and_then(|text| text.parse().ok()).or(of[key].as_u64());
    let scopes = all(body, "resourceSpans").into_iter().flat_map(|resource| all(&resource, "scopeSpans"));
    let spans = scopes.flat_map(|scope| all(&scope, "spans"));
    let span = |span: Value| Span {
        name: text(&span, "name"),
        trace: text(&span, "traceId"),
        id: text(&span, "spanId"),
        parent: text(&span, "parentSpanId"),
        kind: number(&span, "kind").unwrap_or_default(),
        links: all(&span, "links").iter().map(|link| text(link, "spanId")).collect(),
        attributes: all(&span, "attributes")
            .iter()
            .map(|pair| (text(pair, "key"), pair["value"].clone()))
            .collect(),
        starts: number(&span, "startTimeUnixNano").unwrap_or_default(),
        ends: number(&span, "endTimeUnixNano").unwrap_or_default(),
    };
    spans.map(span).collect()
}

/// Posts what the exporter sends.
#[derive(Debug)]
pub(crate) struct Poster;

#[async_trait::async_trait]
impl HttpClient for Poster {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let to = parts.uri.authority().expect("an address").as_str().to_owned();
        let mut stream = TcpStream::connect(&to)?;
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            parts.uri.path(),
            body.len()
        );
        stream.write_all(&[head.as_bytes(), &body[..]].concat())?;
        let answer = read_head(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(Response::new(Bytes::new()))
    }
}
