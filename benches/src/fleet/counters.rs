//! What a server has done, by its own count.

use std::time::Duration;

use windlass_store_testkit::servers::{PostgresServer, RedisServer};

/// A server that counts.
pub(super) enum Server {
    Postgres(PostgresServer),
    Redis(RedisServer),
}

/// What a server has counted since it was started.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    /// Claims on PostgreSQL, all scripts on Redis.
    pub(super) calls: f64,
    /// Looks at jobs by id on PostgreSQL, all scripts on Redis.
    pub(super) looks: f64,
    /// Renewals of leases on PostgreSQL, all scripts on Redis.
    pub(super) renewals: f64,
    /// Transactions on PostgreSQL, which also count where a session hears a notification; commands on Redis, those of
    /// scripts apart.
    pub(super) statements: f64,
}

impl Counted {
    /// What was counted since, per second.
    pub(super) fn rate(self, before: Self, time: Duration) -> Self {
        let rate = |now: f64, before: f64| (now - before) / time.as_secs_f64();
        Self {
            calls: rate(self.calls, before.calls),
            looks: rate(self.looks, before.looks),
            renewals: rate(self.renewals, before.renewals),
            statements: rate(self.statements, before.statements),
        }
    }
}

/// Sessions report what they counted after a second at most while they work. The first number tells functions by how
/// their names begin; one statement is one transaction.
const POSTGRES: &str = "SELECT \
    coalesce(sum(calls) FILTER (WHERE funcname LIKE 'jobs\\_claim\\_%'), 0), \
    coalesce(sum(calls) FILTER (WHERE funcname LIKE 'jobs\\_get\\_%' OR funcname LIKE 'jobs\\_states\\_%'), 0), \
    coalesce(sum(calls) FILTER (WHERE funcname LIKE 'leases\\_renew\\_%'), 0), \
    (SELECT sum(xact_commit) FROM pg_stat_database WHERE datname = current_database()) \
    FROM pg_stat_user_functions";

impl Server {
    pub(super) fn counted(&self) -> Counted {
        match self {
            Self::Postgres(server) => {
                let row = server.psql(POSTGRES);
                let mut numbers = row.split('|').map(|number| number.trim().parse().unwrap_or(0.0));
                let mut next = || numbers.next().unwrap_or(0.0);
                Counted { calls: next(), looks: next(), renewals: next(), statements: next() }
            }
            Self::Redis(server) => {
                let said = server.command(&["INFO", "commandstats"]);
                let calls = |name: &str| -> f64 {
                    let line = said.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
                    let number =
                        line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok());
                    number.unwrap_or(0.0)
                };
                let scripts = calls("evalsha") + calls("eval");
                let statements =
                    scripts + ["publish", "zrangebylex", "hget", "ping"].map(calls).iter().sum::<f64>();
                Counted { calls: scripts, looks: scripts, renewals: scripts, statements }
            }
        }
    }

    pub(super) fn connections(&self) -> u64 {
        match self {
            Self::Postgres(server) => {
                let sql = "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'";
                server.psql(sql).trim().parse().unwrap_or(0)
            }
            Self::Redis(server) => {
                let clients = server.info("connected_clients").and_then(|number| number.parse::<u64>().ok());
                clients.unwrap_or(0).saturating_sub(1)
            }
        }
    }
}
