//! What kind of server this is.

use windlass_core::StoreError;
use windlass_core::store::{Durability, StoreResult};

use super::{Call, Server};
use crate::error::Fault;
use crate::row::at;
use crate::session::Session;

/// The oldest version that will do, as PostgreSQL counts.
const OLDEST: i32 = 140_000;

/// What a server says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// As `150004`.
    pub(crate) version: i32,
    /// What a commit survives.
    pub(crate) durability: Durability,
    /// Whether writes are refused for now: a standby, or set so.
    pub(crate) is_read_only: bool,
}

/// Asks the server. One before PostgreSQL 14 is refused; one that is read-only is not, since that may pass.
pub(crate) async fn probe(server: &Server) -> StoreResult<Probe> {
    const ASK: &str = "SELECT current_setting('server_version_num')::int, \
        current_setting('synchronous_commit'), current_setting('fsync'), \
        pg_is_in_recovery() OR current_setting('transaction_read_only')::bool, \
        current_setting('transaction_isolation'), current_setting('server_encoding')";
    let ask = async |_, session: Session| {
        let rows = session.query(ASK, &[]).await?;
        let row = rows.first().ok_or_else(|| Fault::Defect("no answer".to_owned()))?;
        check(at(row, 4)?, at(row, 5)?)?;
        let durability = durability(at(row, 1)?, at(row, 2)?);
        Ok(Probe { version: at(row, 0)?, durability, is_read_only: at(row, 3)? })
    };
    let probe = server.call(Call::READ, ask).await?;
    if probe.version < OLDEST {
        let major = probe.version / 10_000;
        return Err(StoreError::Address(format!("the server is PostgreSQL {major}: use 14 or newer")));
    }
    Ok(probe)
}

/// The functions are written for this isolation, where each of their statements sees what is there by then; and texts
/// are any that Rust has.
fn check(isolation: &str, encoding: &str) -> StoreResult<()> {
    if isolation != "read committed" {
        return Err(StoreError::Address(format!(
            "transactions begin as {isolation:?} here, and a pooler keeps us from asking for another: set \
             default_transaction_isolation to 'read committed' for the role or the database"
        )));
    }
    if encoding != "UTF8" {
        return Err(StoreError::Address(format!(
            "the database is encoded in {encoding}: make one with ENCODING 'UTF8'"
        )));
    }
    Ok(())
}

fn durability(synchronous_commit: &str, fsync: &str) -> Durability {
    match (synchronous_commit, fsync) {
        ("off", _) => Durability::Delayed,
        (_, "off") => Durability::Crash,
        _ => Durability::PowerCut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_commit_that_waits_for_a_disk_that_is_synced_survives_a_power_cut() {
        for (commit, fsync, expected) in [
            ("on", "on", Durability::PowerCut),
            ("local", "on", Durability::PowerCut),
            ("remote_apply", "on", Durability::PowerCut),
            ("off", "on", Durability::Delayed),
            ("on", "off", Durability::Crash),
        ] {
            assert_eq!(durability(commit, fsync), expected, "{commit} {fsync}");
        }
    }
}
