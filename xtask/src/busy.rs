//! A busy machine, for tests that must not mind one: each core computes most of the time, and the disk flushes.
//!
//! The threads sleep for a moment now and then. Some kernels let threads that never do starve their own, and a flush
//! then takes minutes, which says nothing about the tests.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

const COMPUTES: Duration = Duration::from_millis(30);
const SLEEPS: Duration = Duration::from_micros(500);
const FLUSH_PAUSE: Duration = Duration::from_millis(2);

/// Keeps the machine busy until it is dropped.
pub(crate) struct Busy(Arc<AtomicBool>);

impl Busy {
    pub(crate) fn start() -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..available_parallelism().map_or(2, usize::from) {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    compute();
                    sleep(SLEEPS);
                }
            });
        }
        let mut file = tempfile::tempfile().context("a file to flush")?;
        let flushing = Arc::clone(&is_over);
        thread::spawn(move || {
            while !flushing.load(Ordering::Relaxed) && flush(&mut file).is_ok() {
                sleep(FLUSH_PAUSE);
            }
        });
        Ok(Self(is_over))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn compute() {
    let began = Instant::now();
    while began.elapsed() < COMPUTES {
        std::hint::spin_loop();
    }
}

fn flush(file: &mut File) -> std::io::Result<()> {
    file.rewind()?;
    file.write_all(&[0; 4096])?;
    file.sync_all()
}
