//! Hears what rings on the server, over a stream that is open while a caller here waits for something.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep, timeout};
use windlass_core::bell::{Bell, Fresh, Heard, Named, Topic};
use windlass_core::{Bytes, Name};
use windlass_store_server::backoff::pause;

use super::answer;
use super::connect::Pools;
use crate::wire::{Hear, LISTEN, Notice, PASS, Pass, QUIET};

/// How long the beginning of a stream may take.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// A stream that says nothing for so long is gone.
const GONE: Duration = Duration::from_secs(25);
/// The longest line.
const LINE_MAX: usize = 256 << 10;
/// How often work of one queue is offered to others.
const PASS_GAP: Duration = Duration::from_secs(1);
/// Queues of which that is remembered.
const PASSED_MAX: usize = 100;

/// Goes on until it is dropped.
pub(super) async fn run(lines: Arc<Pools>, bell: Bell) {
    let mut failures = 0_u32;
    loop {
        let heard = bell.heard();
        if heard.is_nothing() {
            bell.wanted().await;
            continue;
        }
        match Stream::open(&lines, heard).await {
            Ok(stream) => {
                failures = 0;
                missed(&bell, &stream.heard);
                match stream.follow(&lines, &bell).await {
                    End::Changed => {}
                    // As many clients as the server has come back at once after it was away.
                    End::Lost(why) => {
                        tracing::debug!(why, "the server is not heard at present");
                        sleep(pause(1)).await;
                    }
                }
            }
            Err(why) => {
                tracing::debug!(why, "the server is not heard, so workers poll");
                failures = failures.saturating_add(1);
                sleep(pause(failures)).await;
            }
        }
    }
}

/// Rings for what was rung before now, and was not heard. Workers are woken by the names of their queues, as by any ring.
fn missed(bell: &Bell, heard: &Heard) {
    bell.ring(Topic::Cancel);
    bell.ring(Topic::Finish);
    if heard.workers.is_empty() {
        bell.ring(Topic::Work);
    }
    let queues: BTreeSet<&Name> = heard.workers.iter().flat_map(|served| &served.queues).collect();
    for queue in queues {
        bell.call(&Fresh { queue: queue.clone(), kind: None, jobs: u32::MAX });
    }
}

/// Why a stream is left.
enum End {
    /// Something else is to be heard.
    Changed,
    /// It broke off.
    Lost(String),
}

struct Stream {
    heard: Heard,
    body: Incoming,
    buffer: Vec<u8>,
    looked: Instant,
    passed: HashMap<Name, Instant>,
}

impl Stream {
    async fn open(lines: &Pools, heard: Heard) -> Result<Self, String> {
        let body = serde_json::to_vec(&Hear { heard: heard.clone() }).map_err(|error| error.to_string())?;
        let line = lines.stream();
        let opened = timeout(OPEN_MAX, line.send(LISTEN, Bytes::from(body))).await;
        let response = opened.map_err(|_| "no answer in time".to_owned())?;
        let response = response.map_err(|fault| format!("{fault:?}"))?;
        if !response.status().is_success() {
            return Err(format!("{:?}", answer::fault(response.status(), b"", true)));
        }
        let (buffer, looked, passed) = (Vec::new(), Instant::now(), HashMap::new());
        Ok(Self { heard, body: response.into_body(), buffer, looked, passed })
    }

    async fn follow(mut self, lines: &Arc<Pools>, bell: &Bell) -> End {
        loop {
            tokio::select! {
                frame = timeout(GONE, self.body.frame()) => {
                    let frame = match frame {
                        Ok(Some(Ok(frame))) => frame,
                        Ok(Some(Err(error))) => return End::Lost(error.to_string()),
                        Ok(None) => return End::Lost("the server ended the stream".to_owned()),
                        Err(_) => return End::Lost("the server says nothing any more".to_owned()),
                    };
                    if let Ok(bytes) = frame.into_data() {
                        self.buffer.extend_from_slice(&bytes);
                    }
                    if self.buffer.len() > LINE_MAX {
                        return End::Lost("a line is too long".to_owned());
                    }
                    self.read(lines, bell);
                    // Those who no longer wait are not told for ever.
                    if self.looked.elapsed() >= QUIET {
                        self.looked = Instant::now();
                        if bell.heard() != self.heard {
                            return End::Changed;
                        }
                    }
                }
                () = bell.wanted() => {
                    if !covers(&self.heard, &bell.heard()) {
                        return End::Changed;
                    }
                }
            }
        }
    }

    /// Rings for each whole line.
    fn read(&mut self, lines: &Arc<Pools>, bell: &Bell) {
        let Some(end) = self.buffer.iter().rposition(|byte| *byte == b'\n') else { return };
        let whole: Vec<u8> = self.buffer.drain(..=end).collect();
        for line in whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Notice>(line) {
                Ok(Notice { rings }) => {
                    if let Named::These(left) = rings.ring(bell).work() {
                        left.iter().for_each(|fresh| self.pass(lines, fresh));
                    }
                }
                // A newer server may say what this program does not know.
                Err(_) => bell.ring_all(),
            }
        }
    }

    /// Offers work to others that no worker here has room for.
    fn pass(&mut self, lines: &Arc<Pools>, fresh: &Fresh) {
        let now = Instant::now();
        self.passed.retain(|_, at| now - *at < PASS_GAP);
        if self.passed.len() >= PASSED_MAX || self.passed.contains_key(&fresh.queue) {
            return;
        }
        self.passed.insert(fresh.queue.clone(), now);
        let Ok(body) = serde_json::to_vec(&Pass { fresh: fresh.clone() }) else { return };
        let line = lines.stream();
        tokio::spawn(async move {
            // A hint: if it is lost, others come when they poll.
            let _ = timeout(OPEN_MAX, line.send(PASS, Bytes::from(body))).await;
        });
    }
}

/// Whether who hears the first hears all of the other.
fn covers(heard: &Heard, wanted: &Heard) -> bool {
    (heard.work || !wanted.work)
        && (heard.cancels || !wanted.cancels)
        && (heard.ends || !wanted.ends)
        && wanted.workers.iter().all(|served| heard.workers.contains(served))
}
