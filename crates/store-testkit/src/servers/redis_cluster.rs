//! A Redis Cluster for tests: three primaries and a replica of each, on this machine.

mod shared;

use std::process::Command;
use std::thread;
use std::time::Duration;

use super::home;
use super::redis::{Install, RedisServer, RedisSettings, field};
use super::{PATIENCE, StartError, poll};
pub use shared::SharedRedisCluster;

const NODES: usize = 6;
/// Slots of every Cluster.
const SLOTS: usize = 16_384;

/// A Cluster of one's own, whose nodes can be killed and whose slots can be moved. Nodes are named by their place
/// in [`nodes`](Self::nodes), which they keep whatever they become.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// The Cluster that all tests of this run share; see [`SharedRedisCluster`].
    pub fn shared() -> &'static SharedRedisCluster {
        SharedRedisCluster::get()
    }

    /// Starts a fresh Cluster without persistence and waits until every node calls it well.
    ///
    /// # Panics
    ///
    /// When it cannot be started, with the reason.
    pub fn start() -> Self {
        Self::start_with(&RedisSettings::default())
    }

    /// Starts a fresh Cluster whose nodes are set like this.
    ///
    /// # Panics
    ///
    /// When it cannot be started, with the reason.
    pub fn start_with(settings: &RedisSettings) -> Self {
        Self::try_start(settings).unwrap_or_else(|error| panic!("no Redis Cluster: {error}"))
    }

    /// Starts a fresh Cluster whose nodes are set like this, and waits until every node calls it well.
    ///
    /// # Errors
    ///
    /// When Redis 6.2 or newer is not on this machine, or does not start.
    pub fn try_start(settings: &RedisSettings) -> Result<Self, StartError> {
        let settings = settings.clone().node();
        let nodes = (0..NODES).map(|_| RedisServer::try_start(&settings)).collect::<Result<Vec<_>, _>>()?;
        let mut create = Command::new(Install::find()?.cli());
        home::forget_surroundings(&mut create);
        create.args(["--cluster", "create"]).args(nodes.iter().map(address));
        create.args(["--cluster-replicas", "1", "--cluster-yes"]);
        home::run(create)?;
        let cluster = Self { nodes };
        cluster.try_until_well()?;
        Ok(cluster)
    }

    /// Where to connect; names all nodes.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(address).collect();
        format!("redis-cluster://{}", addresses.join(","))
    }

    /// All nodes.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The nodes that take writes at the moment, by what the first node that runs says.
    pub fn primaries(&self) -> Vec<usize> {
        let lines = self.lines();
        let primaries = lines.iter().filter(|line| line.is_primary() && line.is_well());
        primaries.filter_map(|line| self.place_of(line.port)).collect()
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &str) -> u16 {
        self.any(|node| node.try_command(&["CLUSTER", "KEYSLOT", key])).parse().expect("a slot is a number")
    }

    /// The primary that holds a slot.
    ///
    /// # Panics
    ///
    /// When no node does at the moment.
    pub fn primary_of(&self, slot: u16) -> usize {
        let lines = self.lines();
        let owner = lines.iter().find(|line| line.is_well() && line.has(slot));
        owner.and_then(|line| self.place_of(line.port)).expect("a slot has a primary")
    }

    /// Kills the primary of a slot without warning. Answers which it was.
    pub fn kill_primary_of(&self, slot: u16) -> usize {
        let place = self.primary_of(slot);
        self.nodes[place].kill();
        place
    }

    /// Waits until every node that runs takes another one than this for the primary of a slot, and calls the
    /// Cluster well again. Answers which it is.
    ///
    /// # Panics
    ///
    /// When that takes more than a minute.
    pub fn until_promoted(&self, slot: u16, instead_of: usize) -> usize {
        let promoted = |node: &RedisServer| {
            let lines = node.try_command(&["CLUSTER", "NODES"]).ok()?;
            let mut lines = lines.lines().filter_map(Line::read);
            let owner = self.place_of(lines.find(|line| line.is_well() && line.has(slot))?.port)?;
            (owner != instead_of).then_some(owner)
        };
        let running = || self.nodes.iter().filter(|node| node.is_running());
        let place = poll(PATIENCE, || running().map(promoted).collect::<Option<Vec<_>>>()?.pop())
            .unwrap_or_else(|| panic!("no node takes slot {slot} over from node {instead_of}"));
        self.until_well();
        place
    }

    /// Starts a node again, with what it had kept on its disk.
    pub fn restart(&self, place: usize) {
        self.nodes[place].restart();
    }

    /// Waits until every node that runs calls the Cluster well, and every replica that runs follows its primary.
    ///
    /// # Panics
    ///
    /// When that takes more than a minute.
    pub fn until_well(&self) {
        self.try_until_well().unwrap_or_else(|error| panic!("the Cluster does not become well: {error}"));
    }

    /// Moves a slot with all its keys to another primary while clients use it: in about ten steps, with the pause
    /// between them.
    ///
    /// # Panics
    ///
    /// When a node refuses a step.
    pub fn move_slot(&self, slot: u16, to: usize, pause: Duration) {
        let from = self.primary_of(slot);
        assert_ne!(from, to, "slot {slot} is there already");
        let (source, target, slot) = (&self.nodes[from], &self.nodes[to], slot.to_string());
        let (source_id, target_id) = (id(source), id(target));
        target.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source_id]);
        source.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id]);
        let port = target.port().to_string();
        // In about ten steps, however many calls the queue remembers in keys of their own.
        let keys: u32 =
            source.command(&["CLUSTER", "COUNTKEYSINSLOT", &slot]).trim().parse().expect("a number");
        let step = (keys / 10).max(3).to_string();
        loop {
            let keys = source.command(&["CLUSTER", "GETKEYSINSLOT", &slot, &step]);
            if keys.is_empty() {
                break;
            }
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys.lines());
            source.command(&migrate);
            thread::sleep(pause);
        }
        // The new owner first: as long as only the old one knew, a slot could be without any.
        target.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]);
        source.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]);
        for other in self.primaries().into_iter().filter(|place| ![from, to].contains(place)) {
            self.nodes[other].command(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]);
        }
    }

    fn try_until_well(&self) -> Result<(), StartError> {
        let mut said = String::new();
        let is_well = |node: &RedisServer, said: &mut String| {
            *said = [["CLUSTER", "INFO"], ["INFO", "replication"], ["CLUSTER", "NODES"]]
                .map(|words| node.try_command(&words).unwrap_or_default())
                .join("\n");
            let has_all = field(said, "cluster_slots_ok") == Some(&SLOTS.to_string());
            let follows =
                field(said, "role") == Some("master") || field(said, "master_link_status") == Some("up");
            let knows_all = field(said, "cluster_known_nodes") == Some(&NODES.to_string());
            // Until news have gone round, those that were told to be replicas are primaries to the others.
            let is_settled = said.lines().filter_map(Line::read).all(|line| !line.is_idle());
            field(said, "cluster_state") == Some("ok") && has_all && follows && knows_all && is_settled
        };
        let running = || self.nodes.iter().filter(|node| node.is_running());
        poll(PATIENCE, || running().all(|node| is_well(node, &mut said)).then_some(()))
            .ok_or_else(|| StartError::Refused { what: "a node does not call the Cluster well".into(), said })
    }

    fn lines(&self) -> Vec<Line> {
        self.any(|node| node.try_command(&["CLUSTER", "NODES"])).lines().filter_map(Line::read).collect()
    }

    fn place_of(&self, port: u16) -> Option<usize> {
        self.nodes.iter().position(|node| node.port() == port)
    }

    /// Asks the first node that answers.
    fn any<T>(&self, ask: impl Fn(&RedisServer) -> Result<T, StartError>) -> T {
        let answer = self.nodes.iter().filter(|node| node.is_running()).find_map(|node| ask(node).ok());
        answer.expect("a node of the Cluster answers")
    }
}

fn address(node: &RedisServer) -> String {
    format!("127.0.0.1:{}", node.port())
}

fn id(node: &RedisServer) -> String {
    node.command(&["CLUSTER", "MYID"])
}

/// A line of `CLUSTER NODES`.
struct Line {
    port: u16,
    flags: Vec<String>,
    slots: Vec<(u16, u16)>,
}

impl Line {
    /// As in `<id> 127.0.0.1:16001@26001 myself,master - 0 1700000000000 1 connected 0-5460 7000`.
    fn read(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let port = words.get(1)?.split('@').next()?.rsplit(':').next()?.parse().ok()?;
        let flags = words.get(2)?.split(',').map(ToOwned::to_owned).collect();
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Self { port, flags, slots: words.iter().skip(8).filter_map(range).collect() })
    }

    fn is_primary(&self) -> bool {
        self.flags.iter().any(|flag| flag == "master")
    }

    /// A primary that has nothing.
    fn is_idle(&self) -> bool {
        self.is_primary() && self.is_well() && self.slots.is_empty()
    }

    fn is_well(&self) -> bool {
        !self.flags.iter().any(|flag| flag.starts_with("fail"))
    }

    fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}
