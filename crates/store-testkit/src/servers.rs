//! Real servers for tests: started on a free port of this machine, in a folder of their own, and gone with the
//! process that started them, even if that one is killed.
//!
//! Most tests take [`PostgresServer::shared`], [`RedisServer::shared`] or [`RedisCluster::shared`]; those that kill,
//! stop or fill a server start one for themselves.
//! A further kind of server is a `Home` plus what it is told on its command line.

mod certificates;
mod home;
mod pgbouncer;
mod postgres;
mod redis;
mod redis_cluster;
mod running;

use std::io;
use std::time::{Duration, Instant};

pub use pgbouncer::{PgBouncer, PoolMode};
pub use postgres::{PostgresServer, Settings, SharedPostgres};
pub use redis::{Aof, RedisServer, RedisSettings, SharedRedis};
pub use redis_cluster::{RedisCluster, SharedRedisCluster};

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A program is not on this machine.
    #[error("no {program} on this machine ({looked}): install {install}")]
    Missing {
        /// The program.
        program: &'static str,
        /// Where it was looked for.
        looked: String,
        /// What brings it, by the name of its package.
        install: &'static str,
    },
    /// The machine refused a step.
    #[error("cannot {step}: {source}")]
    Step {
        /// The step.
        step: String,
        /// What the machine said.
        source: io::Error,
    },
    /// A program ended badly, or did not answer in time.
    #[error("{what}; it said:\n{said}")]
    Refused {
        /// What happened.
        what: String,
        /// The end of what it wrote.
        said: String,
    },
}

impl StartError {
    fn step(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |source| Self::Step { step, source }
    }
}

/// How long a server may take to answer or to end before that is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again, a few hundred times per second, until there is an answer or patience ends. There is
/// nothing to await here: other programs do not tell when they are ready or gone.
fn poll<T>(patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// A port of the loopback interface that is free at the moment.
///
/// It lies below the range that systems take the near end of connections from: otherwise a client that calls a
/// stopped server again and again could be given the server's own port, and keep it from coming back.
fn free_port() -> u16 {
    poll(PATIENCE, || {
        let port = fastrand::u16(15_000..32_000);
        std::net::TcpListener::bind(("127.0.0.1", port)).is_ok().then_some(port)
    })
    .expect("one of thousands of ports is free")
}

/// As [`free_port`], for a node of a Redis Cluster: the nodes speak to each other ten thousand ports above it, and
/// that one is free as well and below the same range.
fn free_port_with_bus() -> u16 {
    poll(PATIENCE, || {
        let port = fastrand::u16(10_000..22_000);
        let is_free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        (is_free(port) && is_free(port + 10_000)).then_some(port)
    })
    .expect("one of thousands of pairs of ports is free")
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The last lines of a log, for the text of a failure.
fn tail(text: &str) -> &str {
    const LINES: usize = 60;
    text.rmatch_indices('\n').nth(LINES).map_or(text, |(at, _)| &text[at + 1..])
}
