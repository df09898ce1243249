//! What a PostgreSQL server says of itself after a run.

use windlass_store_testkit::servers::PostgresServer;

/// Fails when there was a deadlock since the server started, or when a session has left its transaction open.
pub fn assert_tidy(server: &PostgresServer) {
    let deadlocks = server.psql("SELECT coalesce(sum(deadlocks), 0) FROM pg_stat_database");
    assert_eq!(deadlocks, "0", "deadlocks");
    let open = server.psql(
        "SELECT state, query FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()",
    );
    assert_eq!(open, "", "sessions with an open transaction");
}

/// How many jobs of the first queue have completed, by the rows themselves.
pub fn completed(server: &PostgresServer) -> u64 {
    let count = server.psql("SELECT count(*) FROM windlass.ended WHERE state = 4");
    count.parse().expect("a count")
}
