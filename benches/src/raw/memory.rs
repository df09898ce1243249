//! Memory: one locked table and its order, with the moves of a job's life and nothing else.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use windlass::JobId;

use super::BATCH;
use crate::ours::BULK;

struct Row {
    seq: u64,
    payload: Vec<u8>,
    state: u8,
    fence: u64,
    finished: Option<Instant>,
}

#[derive(Default)]
struct Table {
    seq: u64,
    rows: HashMap<JobId, Row>,
    ready: BTreeMap<(i16, u64), JobId>,
}

impl Table {
    fn insert(&mut self, number: u32) {
        let id = JobId::new();
        self.seq += 1;
        let payload = format!("{{\"i\":{number}}}").into_bytes();
        self.rows.insert(id, Row { seq: self.seq, payload, state: 2, fence: 0, finished: None });
        self.ready.insert((0, self.seq), id);
    }

    fn claim(&mut self, limit: u32) -> Vec<(JobId, u64, Vec<u8>)> {
        let mut claimed = Vec::new();
        for _ in 0..limit {
            let Some((_, id)) = self.ready.pop_first() else { break };
            let row = self.rows.get_mut(&id).expect("every ready id has a row");
            row.state = 3;
            row.fence += 1;
            claimed.push((id, row.fence, row.payload.clone()));
        }
        claimed
    }

    fn settle(&mut self, id: JobId, fence: u64) {
        let row = self.rows.get_mut(&id).expect("nothing is removed");
        if row.state == 3 && row.fence == fence {
            row.state = 4;
            row.finished = Some(Instant::now());
            std::hint::black_box((row.seq, row.finished));
        }
    }
}

pub(super) fn enqueue(jobs: u32) -> f64 {
    let table = Mutex::new(Table::default());
    let started = Instant::now();
    insert_all(&table, jobs);
    f64::from(jobs) / started.elapsed().as_secs_f64()
}

pub(super) fn drain(jobs: u32) -> f64 {
    let table = Mutex::new(Table::default());
    insert_all(&table, jobs);
    let started = Instant::now();
    while run_batch(&table) {}
    f64::from(jobs) / started.elapsed().as_secs_f64()
}

pub(super) fn whole(jobs: u32) -> f64 {
    let table = Mutex::new(Table::default());
    let started = Instant::now();
    for _ in 0..jobs / BULK {
        insert_all(&table, BULK);
        while run_batch(&table) {}
    }
    f64::from(jobs / BULK * BULK) / started.elapsed().as_secs_f64()
}

pub(super) fn latency(samples: u32) -> Result<Vec<Duration>> {
    let table = Mutex::new(Table::default());
    let one = |number| {
        let started = Instant::now();
        locked(&table).insert(number);
        std::hint::black_box(locked(&table).claim(1));
        started.elapsed()
    };
    Ok((0..samples).map(one).collect())
}

fn insert_all(table: &Mutex<Table>, jobs: u32) {
    for start in (0..jobs).step_by(BULK as usize) {
        let mut table = locked(table);
        (start..jobs.min(start + BULK)).for_each(|number| table.insert(number));
    }
}

fn run_batch(table: &Mutex<Table>) -> bool {
    let claimed = locked(table).claim(BATCH);
    let mut table = locked(table);
    for (id, fence, payload) in &claimed {
        std::hint::black_box(payload);
        table.settle(*id, *fence);
    }
    !claimed.is_empty()
}

fn locked(table: &Mutex<Table>) -> std::sync::MutexGuard<'_, Table> {
    table.lock().expect("no holder panics")
}
