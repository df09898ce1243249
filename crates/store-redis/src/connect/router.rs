//! Which connection a request takes: the only server, or that of its slot in a Cluster.
//!
//! The map of a Cluster is read from any of its nodes, corrected by each `MOVED`, and read again after anything that
//! hints at a change. A failed reading leaves the old map: a wrong way is put right by the node that is asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::select_ok;
use redis::Value;
use tokio::time::{Instant, timeout};

use super::slots::Slots;
use super::{Connector, Lane, Line};
use crate::RedisOptions;
use crate::error::{Away, Said, chain};
use crate::options::{Layout, Target};

/// How long a node may take to tell the map.
const MAP_WAIT: Duration = Duration::from_secs(1);

/// The most nodes that are asked for it.
const CANDIDATES_MAX: usize = 10;

/// The map is not read more often than this.
const MAP_PAUSE: Duration = Duration::from_millis(100);

/// All connections of a store but the one that listens.
pub(crate) struct Router {
    connector: Arc<Connector>,
    seeds: Vec<Target>,
    lines: Mutex<HashMap<(Lane, Target), Arc<Line>>>,
    map: Mutex<Map>,
    /// Held by the one who reads the map.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Map {
    is_cluster: bool,
    is_stale: bool,
    slots: Option<Slots>,
    read: Option<Instant>,
}

impl Router {
    pub(super) fn new(connector: Arc<Connector>, options: &RedisOptions) -> Self {
        let map = Map { is_cluster: options.layout == Layout::Cluster, ..Map::default() };
        let (lines, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { connector, seeds: options.targets.clone(), lines, map: Mutex::new(map), turn }
    }

    /// The server has said that it is a node of a Cluster.
    pub(crate) fn become_cluster(&self) {
        self.map().is_cluster = true;
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.map().is_cluster
    }

    /// The line to the server of a slot, or to any server.
    pub(crate) async fn line(&self, lane: Lane, slot: Option<u16>) -> Result<Arc<Line>, Away> {
        if !self.is_cluster() {
            return Ok(self.line_to(lane, &self.seeds[0]));
        }
        if self.needs_reading() {
            self.read_map().await?;
        }
        let target = {
            let map = self.map();
            let slots = map.slots.as_ref();
            match slot {
                Some(slot) => slots.and_then(|slots| slots.owner(slot)).cloned(),
                None => slots.and_then(|slots| fastrand::choice(slots.nodes())).cloned(),
            }
        };
        match target {
            Some(target) => Ok(self.line_to(lane, &target)),
            None => {
                self.doubt();
                Err(Away::passing("no node of the cluster serves this slot"))
            }
        }
    }

    /// The line to this server.
    pub(crate) fn line_to(&self, lane: Lane, target: &Target) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry((lane, target.clone()));
        let made = || Arc::new(Line::new(target.clone(), Arc::clone(&self.connector)));
        Arc::clone(line.or_insert_with(made))
    }

    /// All servers that have slots, or the only one.
    pub(crate) async fn targets(&self) -> Result<Vec<Target>, Away> {
        if !self.is_cluster() {
            return Ok(self.seeds.clone());
        }
        if self.needs_reading() {
            self.read_map().await?;
        }
        Ok(self.map().slots.as_ref().map(|slots| slots.nodes().to_vec()).unwrap_or_default())
    }

    /// A node has said where a slot is.
    pub(crate) fn moved(&self, slot: u16, target: Target) {
        let mut map = self.map();
        map.is_stale = true;
        if let Some(slots) = &mut map.slots {
            slots.moved(slot, target);
        }
    }

    /// Something hints at a change.
    pub(crate) fn doubt(&self) {
        self.map().is_stale = true;
    }

    fn needs_reading(&self) -> bool {
        let map = self.map();
        map.slots.is_none() || (map.is_stale && map.read.is_none_or(|read| read.elapsed() >= MAP_PAUSE))
    }

    /// Reads the map, unless somebody does or has meanwhile. An old map is better than waiting: a wrong way is put
    /// right by the node that is asked.
    async fn read_map(&self) -> Result<(), Away> {
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(_) if self.map().slots.is_some() => return Ok(()),
            Err(_) => self.turn.lock().await,
        };
        if !self.needs_reading() {
            return Ok(());
        }
        let mut candidates =
            self.map().slots.as_ref().map(|slots| slots.nodes().to_vec()).unwrap_or_default();
        fastrand::shuffle(&mut candidates);
        candidates.extend(self.seeds.iter().cloned());
        candidates.truncate(CANDIDATES_MAX);
        // All at once: one that hangs must not hold up the rest.
        let answers = candidates.iter().map(|target| Box::pin(self.ask(target)));
        match select_ok(answers).await {
            Ok((slots, _)) => self.take(slots),
            Err(away) => {
                let mut map = self.map();
                map.read = Some(Instant::now());
                if map.slots.is_none() {
                    return Err(away);
                }
            }
        }
        Ok(())
    }

    fn take(&self, slots: Slots) {
        let nodes = slots.nodes().to_vec();
        {
            let mut map = self.map();
            (map.slots, map.read, map.is_stale) = (Some(slots), Some(Instant::now()), false);
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|(_, target), _| nodes.contains(target) || self.seeds.contains(target));
    }

    async fn ask(&self, target: &Target) -> Result<Slots, Away> {
        match timeout(MAP_WAIT, self.ask_at_leisure(target)).await {
            Ok(result) => result,
            Err(_) => Err(Away::passing(format!("{target} does not tell the map of its cluster"))),
        }
    }

    async fn ask_at_leisure(&self, target: &Target) -> Result<Slots, Away> {
        let wire = self.line_to(Lane::Lease, target).wire().await?;
        let question = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
        match wire.connection.clone().send_packed_command(&question).await {
            Ok(Value::ServerError(error)) => {
                let said = Said::from(&error);
                if said.text.contains("cluster support disabled") {
                    let text = "this server is not a node of a Cluster: use redis://host:port/database";
                    return Err(Away { what: text.to_owned(), cause: None, is_lasting: true });
                }
                Err(Away::said(&said))
            }
            Ok(answer) => Slots::read(&answer, target)
                .filter(|slots| !slots.nodes().is_empty())
                .ok_or_else(|| Away::passing(format!("{target} knows no slots of its cluster"))),
            Err(error) => Err(Away::because(format!("{target} does not answer"), chain(&error))),
        }
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
