//! How much a server takes and holds at once, so that no request and no number of them fills its memory.

use std::time::Duration;

/// What one request may bring, and how many there may be at once. All have a sensible default.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Bounds {
    /// Bytes of a body, where the route says nothing else; 1 MiB.
    pub body: usize,
    /// Bytes of the body of a route that takes many jobs at once; 16 MiB.
    pub body_bulk: usize,
    /// Bytes of all bodies that are being read or worked on; 64 MiB.
    pub bodies: usize,
    /// How deep JSON may be nested; 64.
    pub depth: usize,
    /// Connections at once; 512.
    pub connections: usize,
    /// Streams and long polls at once; 200.
    pub streams: usize,
    /// How long the head of a request may take; 10 s.
    pub head_time: Duration,
    /// How long a body may take; 30 s.
    pub body_time: Duration,
    /// How long an answer may wait for its caller to read; 30 s.
    pub read_time: Duration,
    /// How long a stopping server waits for requests that are under way; 10 s.
    pub stop_time: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            body: 1 << 20,
            body_bulk: 16 << 20,
            bodies: 64 << 20,
            depth: 64,
            connections: 512,
            streams: 200,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            read_time: Duration::from_secs(30),
            stop_time: Duration::from_secs(10),
        }
    }
}

/// Entries that a page has at most; larger limits are lowered to this.
pub(crate) const PAGE_MAX: u32 = 1_000;
/// Entries that a page has where nothing is said.
pub(crate) const PAGE_DEFAULT: u32 = 50;
/// Jobs that one bulk call takes.
pub(crate) const BULK_MAX: usize = 1_000;
/// The longest wait of a long poll.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);
