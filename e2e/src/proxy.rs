//! A TCP proxy on the loopback between a client and its server, which loses answers to order: it cuts a connection
//! exactly where an answer goes by, or keeps the answer to a request back until the test has seen what came of it.
//!
//! It knows no protocol: tests mark what they hand in by a word that stands nowhere else, and name that word.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// One proxy before one server. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    server: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    rule: Mutex<Option<Rule>>,
    is_away: AtomicBool,
    /// Raised to end every connection.
    everything: watch::Sender<u64>,
    /// Raised to end the connections whose answers are kept back.
    kept_back: watch::Sender<u64>,
    /// How many answers a rule has taken.
    taken: watch::Sender<u32>,
}

/// Which answers are lost.
#[derive(Debug)]
struct Rule {
    word: Vec<u8>,
    direction: Direction,
    left: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Answer,
}

impl Proxy {
    /// A proxy before the server at this port.
    pub async fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on the loopback");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            rule: Mutex::default(),
            is_away: AtomicBool::new(false),
            everything: watch::Sender::new(0),
            kept_back: watch::Sender::new(0),
            taken: watch::Sender::new(0),
        });
        let accepting = tokio::spawn(accept(listener, server, Arc::clone(&shared)));
        Self { port, server, shared, accepting }
    }

    /// The server's URL with the port of the proxy.
    pub fn url(&self, url: &str) -> String {
        let (from, to) = (format!(":{}", self.server), format!(":{}", self.port));
        assert!(url.contains(&from), "{url} is not where the proxy leads");
        url.replacen(&from, &to, 1)
    }

    /// Cuts a connection when an answer with this word comes by, before the word is passed on; so many times.
    pub fn lose_answers_with(&self, word: &str, times: u32) {
        self.set(word, Direction::Answer, times);
    }

    /// Passes a request with this word on, and from then on none of the answers of its connection, which stays open
    /// until [`cut`](Self::cut); so many times.
    pub fn keep_answers_to(&self, word: &str, times: u32) {
        self.set(word, Direction::Request, times);
    }

    fn set(&self, word: &str, direction: Direction, left: u32) {
        let rule = Rule { word: word.as_bytes().to_owned(), direction, left };
        *self.shared.rule.lock().expect("no holder of the lock panics") = Some(rule);
    }

    /// How many answers were lost or kept back.
    pub fn taken(&self) -> u32 {
        *self.shared.taken.borrow()
    }

    /// Waits until so many answers were lost or kept back in all.
    pub async fn until_taken(&self, count: u32) {
        let mut taken = self.shared.taken.subscribe();
        taken.wait_for(|taken| *taken >= count).await.expect("the sender is ours");
    }

    /// Cuts the connections whose answers are kept back.
    pub fn cut(&self) {
        self.shared.kept_back.send_modify(|turn| *turn += 1);
    }

    /// Cuts every connection, and takes no new one until [`open`](Self::open).
    pub fn close(&self) {
        self.shared.is_away.store(true, Ordering::SeqCst);
        self.shared.everything.send_modify(|turn| *turn += 1);
    }

    /// Takes connections again.
    pub fn open(&self) {
        self.shared.is_away.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.close();
    }
}

async fn accept(listener: TcpListener, server: u16, shared: Arc<Shared>) {
    loop {
        let (client, _) = listener.accept().await.expect("the loopback accepts");
        // The turn is taken first: a close that comes now ends this connection too.
        let end = shared.everything.subscribe();
        if !shared.is_away.load(Ordering::SeqCst) {
            tokio::spawn(carry(client, server, Arc::clone(&shared), end));
        }
    }
}

/// Carries bytes both ways until one side ends, or it is told to.
async fn carry(client: TcpStream, server: u16, shared: Arc<Shared>, mut end: watch::Receiver<u64>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    // Answers are small, and the next request waits for them.
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("a TCP socket");
    }
    let mut kept_back = shared.kept_back.subscribe();
    let is_kept_back = AtomicBool::new(false);
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = Pump { direction: Direction::Request, shared: &shared, is_kept_back: &is_kept_back };
    let answers = Pump { direction: Direction::Answer, ..requests };
    let released = async {
        loop {
            kept_back.changed().await?;
            if is_kept_back.load(Ordering::SeqCst) {
                return Ok::<_, watch::error::RecvError>(());
            }
        }
    };
    tokio::select! {
        _ = requests.run(from_client, to_server) => {}
        _ = answers.run(from_server, to_client) => {}
        _ = released => {}
        _ = end.changed() => {}
    }
}

/// One direction of one connection.
#[derive(Clone, Copy)]
struct Pump<'a> {
    direction: Direction,
    shared: &'a Shared,
    is_kept_back: &'a AtomicBool,
}

impl Pump<'_> {
    /// Ends with the connection, or where an answer is to be lost.
    async fn run(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        // What the last bytes were, since a word may come in two parts.
        let mut seen = Vec::new();
        loop {
            let count = from.read(&mut buffer).await?;
            let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
            if self.is_kept_back.load(Ordering::SeqCst) && self.direction == Direction::Answer {
                continue;
            }
            seen.extend_from_slice(bytes);
            if self.shared.takes(self.direction, &mut seen) {
                self.is_kept_back.store(true, Ordering::SeqCst);
                // Told when it holds, so that a cut that comes next finds this connection.
                self.shared.taken.send_modify(|taken| *taken += 1);
                if self.direction == Direction::Answer {
                    return Ok(());
                }
            }
            to.write_all(bytes).await?;
        }
    }
}

impl Shared {
    /// Whether the rule is about what has come by. Of that, only what may be the beginning of the word is left.
    fn takes(&self, direction: Direction, seen: &mut Vec<u8>) -> bool {
        let mut rule = self.rule.lock().expect("no holder of the lock panics");
        let Some(rule) = rule.as_mut().filter(|rule| rule.direction == direction && rule.left > 0) else {
            seen.clear();
            return false;
        };
        let is_there = seen.windows(rule.word.len()).any(|bytes| bytes == rule.word);
        rule.left -= u32::from(is_there);
        let rest = if is_there { seen.len() } else { seen.len().saturating_sub(rule.word.len() - 1) };
        seen.drain(..rest);
        is_there
    }
}
