//! The servers that whole-system tests torment, and what they say of themselves: asked past the library, so that a
//! fault of the library does not answer.

use windlass_store_testkit::servers::{PostgresServer, RedisServer};

/// A server with a store of its own, all of whose jobs are in the queue `default`.
pub trait StoreServer: Send + Sync {
    /// Where to connect.
    fn url(&self) -> String;

    /// The port there.
    fn port(&self) -> u16;

    /// Kills it without warning.
    fn kill(&self);

    /// Starts it again on what it has kept.
    fn restart(&self);

    /// How many jobs have completed.
    fn completed(&self) -> u64;

    /// How many jobs have not ended.
    fn open(&self) -> u64;

    /// How many jobs there are, whatever their state.
    fn stored(&self) -> u64;

    /// Fails when something was left behind that should not be.
    fn assert_tidy(&self);
}

impl StoreServer for PostgresServer {
    fn url(&self) -> String {
        self.url()
    }

    fn port(&self) -> u16 {
        self.port()
    }

    fn kill(&self) {
        self.kill();
    }

    fn restart(&self) {
        self.restart();
    }

    fn completed(&self) -> u64 {
        count(self, "SELECT count(*) FROM windlass.ended WHERE state = 4")
    }

    fn open(&self) -> u64 {
        count(
            self,
            "SELECT (SELECT count(*) FROM windlass.waiting) + (SELECT count(*) FROM windlass.running)",
        )
    }

    fn stored(&self) -> u64 {
        count(self, "SELECT count(*) FROM windlass.jobs")
    }

    /// No deadlock since the server started, and no session that has left its transaction open.
    fn assert_tidy(&self) {
        let deadlocks = self.psql("SELECT coalesce(sum(deadlocks), 0) FROM pg_stat_database");
        assert_eq!(deadlocks, "0", "deadlocks");
        let open = self.psql(
            "SELECT state, query FROM pg_stat_activity
             WHERE state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()",
        );
        assert_eq!(open, "", "sessions with an open transaction");
    }
}

fn count(server: &PostgresServer, sql: &str) -> u64 {
    server.psql(sql).parse().expect("a count")
}

/// A key of the queue `default`.
pub fn key(name: &str) -> String {
    format!("wl:{{windlass:default}}:{name}")
}

/// The counters of the queue `default` by the number of their state.
fn counters(server: &RedisServer) -> [u64; 7] {
    let fields = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];
    let said = server.command(&[&["HMGET", &key("meta")][..], &fields].concat());
    let mut counts =
        said.lines().map(|line| if line.is_empty() { 0 } else { line.parse().expect("a count") });
    fields.map(|_| counts.next().unwrap_or(0))
}

impl StoreServer for RedisServer {
    fn url(&self) -> String {
        self.url()
    }

    fn port(&self) -> u16 {
        self.port()
    }

    fn kill(&self) {
        self.kill();
    }

    fn restart(&self) {
        self.restart();
    }

    fn completed(&self) -> u64 {
        counters(self)[4]
    }

    fn open(&self) -> u64 {
        counters(self)[..4].iter().sum()
    }

    fn stored(&self) -> u64 {
        self.command(&["HLEN", &key("jobs")]).parse().expect("a length")
    }

    /// Counters and indexes agree with the jobs there are, no letter was left, and no script was slow.
    fn assert_tidy(&self) {
        let length = |command: &str, name: &str| -> u64 {
            self.command(&[command, &key(name)]).parse().expect("a length")
        };
        let counts = counters(self);
        assert_eq!(counts.iter().sum::<u64>(), length("HLEN", "jobs"), "counters {counts:?}");
        for (state, index) in [(1, "scheduled"), (4, "completed"), (5, "dead"), (6, "cancelled")] {
            assert_eq!(counts[state], length("ZCARD", index), "{index}: {counts:?}");
        }
        assert_eq!(length("XLEN", "transfers"), 0, "transfers that are not delivered");
    }
}
