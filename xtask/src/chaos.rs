//! `cargo xtask chaos`: the tests of the whole system, longer and harder. Each part also runs short in the suite, but
//! for the disk that fills up, which needs a mount of its own.

use anyhow::Result;
use clap::Args;

use crate::{needs, shell};

/// How long and how hard
#[derive(Args)]
pub(crate) struct Chaos {
    /// Run only these tests, as `poison` or `lost_answers`
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How many jobs to push through
    #[arg(long, default_value_t = 50_000)]
    jobs: u32,
    /// How many times to kill a worker
    #[arg(long, default_value_t = 60)]
    kills: u32,
    /// How many times to kill the PostgreSQL server, and the Redis server
    #[arg(long, default_value_t = 20)]
    server_kills: u32,
    /// How many calls of the PostgreSQL store to drop
    #[arg(long, default_value_t = 100_000)]
    drops: u32,
    /// How many times to kill a primary of the Redis Cluster
    #[arg(long, default_value_t = 10)]
    failovers: u32,
    /// How many slots of the Redis Cluster to move
    #[arg(long, default_value_t = 60)]
    slot_moves: u32,
    /// How many finished jobs to prune from Redis
    #[arg(long, default_value_t = 1_500_000)]
    history: u32,
    /// How many answers to claims to lose, on each server
    #[arg(long, default_value_t = 200)]
    lost_claims: u32,
    /// How many enqueues to lose answers of, on each server
    #[arg(long, default_value_t = 200)]
    lost_enqueues: u32,
    /// How many jobs to run beside one that aborts its process
    #[arg(long, default_value_t = 300)]
    neighbours: u32,
    /// For how many seconds to measure a queue beside a sick one, and beside a healthy one
    #[arg(long, default_value_t = 10)]
    sick_seconds: u32,
    /// How many payloads of a megabyte to hand in at once
    #[arg(long, default_value_t = 301)]
    large_payloads: u32,
    /// How many times to set the clock by two hours
    #[arg(long, default_value_t = 40)]
    clock_steps: u32,
    /// How many times to kill or stop a worker beside limits
    #[arg(long, default_value_t = 30)]
    limit_rounds: u32,
    /// How many keys to do something once for, with 64 callers each
    #[arg(long, default_value_t = 10_000)]
    once_keys: u32,
    /// How many chains of ten jobs to run beside kills
    #[arg(long, default_value_t = 5_000)]
    chains: u32,
    /// How many dead jobs to send back by a replay that is killed half-way
    #[arg(long, default_value_t = 100_000)]
    replayed: u32,
    /// How many random flows to run beside kills
    #[arg(long, default_value_t = 300)]
    flows: u32,
    /// How many jobs one of a flow waits for beside kills
    #[arg(long, default_value_t = 20_000)]
    fan_in: u32,
    /// How many times to let a job wait for a thousand others, on each store
    #[arg(long, default_value_t = 20)]
    fan_in_rounds: u32,
    /// How many times to kill or stop a worker beside schedules
    #[arg(long, default_value_t = 60)]
    schedule_faults: u32,
    /// How many outcomes to hold up beyond the lease
    #[arg(long, default_value_t = 1_000)]
    late_outcomes: u32,
}

const TESTS: [&str; 16] = [
    "hammer",
    "server_kill",
    "faults",
    "redis_faults",
    "cluster_faults",
    "flows",
    "limits",
    "lost_answers",
    "poison",
    "repeats",
    "schedules",
    "sick_queue",
    "large",
    "clock_steps",
    "outage",
    "unreadable",
];

impl Chaos {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Runs every part, or those that were asked for.
    pub(crate) fn run(&self) -> Result<()> {
        needs::servers()?;
        let tests: Vec<_> = TESTS.into_iter().filter(|test| self.wants(test)).collect();
        if !tests.is_empty() {
            self.torment(&tests)?;
        }
        if self.wants("small_disk") {
            let arguments = ["run", "--release", "-p", "windlass-e2e", "--bin", "small-disk"];
            shell::cargo("fill a disk and free it", arguments).run()?;
        }
        if self.wants("dropped") {
            let arguments = ["test", "--release", "-p", "windlass-store-postgres", "--test", "dropped"];
            shell::cargo("drop calls", arguments)
                .env("WINDLASS_DROPS", self.drops)
                .args(["--", "--nocapture"])
                .run()?;
        }
        if self.wants("prune") {
            let arguments = ["test", "--release", "-p", "windlass-store-redis", "--test", "prune"];
            shell::cargo("prune a long history", arguments)
                .env("WINDLASS_PRUNE_JOBS", self.history)
                .args(["--", "--nocapture"])
                .run()?;
        }
        if self.wants("fan_in") {
            let features = ["--features", "sqlite,postgres,redis"];
            shell::cargo("wait for thousands", ["test", "--release", "-p", "windlass", "--test", "flows"])
                .args(features)
                .env("WINDLASS_FAN_IN_ROUNDS", self.fan_in_rounds)
                .args(["--", "--nocapture", "--test-threads=1"])
                .run()?;
        }
        Ok(())
    }

    fn torment(&self, tests: &[&str]) -> Result<()> {
        shell::cargo("torment workers, servers and queues", ["test", "--release", "-p", "windlass-e2e"])
            .args(tests.iter().flat_map(|test| ["--test", test]))
            .env("WINDLASS_HAMMER_JOBS", self.jobs)
            .env("WINDLASS_HAMMER_KILLS", self.kills)
            .env("WINDLASS_SERVER_KILLS", self.server_kills)
            .env("WINDLASS_FAILOVERS", self.failovers)
            .env("WINDLASS_SLOT_MOVES", self.slot_moves)
            .env("WINDLASS_LOST_CLAIMS", self.lost_claims)
            .env("WINDLASS_LOST_ENQUEUES", self.lost_enqueues)
            .env("WINDLASS_POISON_NEIGHBOURS", self.neighbours)
            // As many as by default.
            .env("WINDLASS_POISON_STALLS", 3)
            .env("WINDLASS_SICK_SECONDS", self.sick_seconds)
            .env("WINDLASS_LARGE_PAYLOADS", self.large_payloads)
            .env("WINDLASS_CLOCK_STEPS", self.clock_steps)
            .env("WINDLASS_LIMIT_ROUNDS", self.limit_rounds)
            .env("WINDLASS_ONCE_KEYS", self.once_keys)
            .env("WINDLASS_ONCE_CALLERS", 64)
            .env("WINDLASS_CHAINS", self.chains)
            .env("WINDLASS_REPLAYED", self.replayed)
            .env("WINDLASS_REPEAT_KILLS", self.limit_rounds)
            .env("WINDLASS_FLOWS", self.flows)
            .env("WINDLASS_FAN_IN", self.fan_in)
            .env("WINDLASS_FAN_INS", self.flows)
            .env("WINDLASS_FLOW_KILLS", self.limit_rounds)
            .env("WINDLASS_FLOW_FAILOVERS", self.failovers)
            .env("WINDLASS_SCHEDULE_FAULTS", self.schedule_faults)
            .env("WINDLASS_LATE_OUTCOMES", self.late_outcomes)
            .args(["--", "--nocapture", "--test-threads=1"])
            .run()
    }
}
