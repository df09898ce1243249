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
use super::{Connector, Endpoint, Purpose};
use crate::RedisOptions;
use crate::error::{Unreachable, chain, server_error};
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
    endpoints: Mutex<HashMap<(Purpose, Target), Arc<Endpoint>>>,
    map: Mutex<Map>,
    /// Held by the request that reads the map.
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
        let (endpoints, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { connector, seeds: options.targets.clone(), endpoints, map: Mutex::new(map), turn }
    }

    /// The server has said that it is a node of a Cluster.
    pub(crate) fn become_cluster(&self) {
        self.map().is_cluster = true;
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.map().is_cluster
    }

    /// The server of a slot, or any server.
    pub(crate) async fn endpoint(
        &self,
        purpose: Purpose,
        slot: Option<u16>,
    ) -> Result<Arc<Endpoint>, Unreachable> {
        if !self.is_cluster() {
            return Ok(self.endpoint_to(purpose, &self.seeds[0]));
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
            Some(target) => Ok(self.endpoint_to(purpose, &target)),
            None => {
                self.doubt();
                Err(Unreachable::passing("no node of the cluster serves this slot"))
            }
        }
    }

    /// This server.
    pub(crate) fn endpoint_to(&self, purpose: Purpose, target: &Target) -> Arc<Endpoint> {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let endpoint = endpoints.entry((purpose, target.clone()));
        let made = || Arc::new(Endpoint::new(target.clone(), Arc::clone(&self.connector)));
        Arc::clone(endpoint.or_insert_with(made))
    }

    /// All servers that have slots, or the only one.
    pub(crate) async fn targets(&self) -> Result<Vec<Target>, Unreachable> {
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

    /// Reads the map, unless another request does or has meanwhile. An old map is better than waiting: a wrong way is put
    /// right by the node that is asked.
    async fn read_map(&self) -> Result<(), Unreachable> {
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
            Err(why) => {
                let mut map = self.map();
                map.read = Some(Instant::now());
                if map.slots.is_none() {
                    return Err(why);
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
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints.retain(|(_, target), _| nodes.contains(target) || self.seeds.contains(target));
    }

    async fn ask(&self, target: &Target) -> Result<Slots, Unreachable> {
        match timeout(MAP_WAIT, self.ask_at_leisure(target)).await {
            Ok(result) => result,
            Err(_) => Err(Unreachable::passing(format!("{target} does not tell the map of its cluster"))),
        }
    }

    async fn ask_at_leisure(&self, target: &Target) -> Result<Slots, Unreachable> {
        let connection = self.endpoint_to(Purpose::Lease, target).connection().await?;
        let question = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
        match connection.multiplexed.clone().send_packed_command(&question).await {
            Ok(Value::ServerError(error)) => {
                let error = server_error(&error);
                if error.text.contains("cluster support disabled") {
                    let text = "this server is not a node of a Cluster: use redis://host:port/database";
                    return Err(Unreachable::passing(text).lasting());
                }
                Err(Unreachable::refused(&error))
            }
            Ok(answer) => Slots::read(&answer, target)
                .filter(|slots| !slots.nodes().is_empty())
                .ok_or_else(|| Unreachable::passing(format!("{target} knows no slots of its cluster"))),
            Err(error) => Err(Unreachable::because(format!("{target} does not answer"), chain(&error))),
        }
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
