//! The store as a whole: how far away it is, what its clock says, what it promises, and the leases of its workers.

use std::time::{Duration, Instant, SystemTime};

use windlass_core::clock::Timestamp;
use windlass_core::forms::{coarse, short};
use windlass_core::store::{Durability, Finding, LeaseRecord};

use crate::client::Client;
use crate::error::Result;

/// Leases that are read.
pub(super) const LEASES_MAX: u32 = 1_000;
/// Calls that tell how far away the store is.
const CALLS: usize = 5;
/// A call that takes longer makes a worker slow.
const LATENCY_MAX: Duration = Duration::from_millis(100);
/// How far apart two clocks may be: much less than anything that people schedule.
const SKEW_MAX: Duration = Duration::from_secs(2);
/// How long a lost lease may have jobs: a living worker looks every few seconds.
const TAKEN_BACK_WITHIN: Duration = Duration::from_secs(60);
/// Lost jobs that are counted.
const LOST_MAX: u32 = 1_000;

/// How long calls take, and how far the store's clock is from this machine's. Also the store's instant.
pub(super) async fn connection(client: &Client) -> Result<(Vec<Finding>, Timestamp)> {
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        let (began, local) = (Instant::now(), Timestamp::from(SystemTime::now()));
        let now = client.store().now().await?;
        calls.push((began.elapsed(), local, now));
    }
    // The fastest call says most about the clock, the one in the middle about the way.
    calls.sort_unstable_by_key(|(took, ..)| *took);
    let ((fastest, local, now), took) = (calls[0], calls[CALLS / 2].0);
    let read_at = local.plus(fastest / 2);
    let (ahead, behind) = (now.since(read_at), read_at.since(now));
    Ok((vec![latency(took), skew(ahead, behind)], now))
}

fn latency(took: Duration) -> Finding {
    let what = format!("a call takes {}", short(took));
    match took > LATENCY_MAX {
        true => Finding::warning("connection", what, "run workers near the store, or see what keeps it busy"),
        false => Finding::ok("connection", what),
    }
}

fn skew(ahead: Duration, behind: Duration) -> Finding {
    let (apart, word) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
    let what = format!("the store's clock is {} {word} this machine's", short(coarse(apart)));
    match apart > SKEW_MAX {
        true => Finding::warning(
            "clock",
            what,
            "set the clocks by a time server: jobs with an instant (--at) start by the store's",
        ),
        false => Finding::ok("clock", what),
    }
}

pub(super) fn durability(durability: Durability) -> Finding {
    let what = format!("an accepted job {durability}");
    match durability {
        Durability::Process => Finding::warning(
            "durability",
            format!("accepted jobs are {durability}"),
            "use memory: for tests only",
        ),
        Durability::Server => {
            Finding::problem("durability", what, "let the server write a file (Redis: appendonly yes)")
        }
        _ => Finding::ok("durability", what),
    }
}

/// Lost leases whose jobs no worker takes back.
pub(super) async fn leases(client: &Client, leases: &[LeaseRecord], now: Timestamp) -> Result<Vec<Finding>> {
    let lost = client.store().lost(LOST_MAX).await?.len();
    let alive = leases.iter().filter(|lease| !lease.is_lost).count();
    let mut findings: Vec<Finding> = leases
        .iter()
        .filter(|lease| lease.is_lost && lease.running > 0)
        .map(|lease| stuck(lease, alive, now))
        .collect();
    if findings.is_empty() && lost > 0 {
        let what = format!("{lost} running jobs have no living worker");
        findings.push(Finding::warning("leases", what, "start a worker, or wait until one takes them back"));
    }
    if findings.is_empty() {
        let forgotten = leases.len() - alive;
        findings
            .push(Finding::ok("leases", format!("{alive} workers live, {forgotten} are gone without jobs")));
    }
    Ok(findings)
}

fn stuck(lease: &LeaseRecord, alive: usize, now: Timestamp) -> Finding {
    let since = now.since(lease.expires_at);
    let what = format!(
        "{} jobs of worker {} wait to be taken back since {}",
        lease.running,
        lease.worker,
        short(coarse(since))
    );
    let remedy = match alive {
        0 => "start any worker of this store: it takes them back",
        _ => "read the log of a living worker; on PostgreSQL end the transaction that has their rows locked",
    };
    match since > TAKEN_BACK_WITHIN || alive == 0 {
        true => Finding::problem("leases", what, remedy),
        false => Finding::warning("leases", what, "wait: a living worker takes them back within seconds"),
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::store::Level;
    use windlass_core::{LeaseId, Name};

    use super::*;

    #[test]
    fn only_what_is_far_is_told() {
        let ms = Duration::from_millis;
        assert_eq!([ms(100), ms(101)].map(|took| latency(took).level), [Level::Ok, Level::Warning]);
        let clocks = [(ms(0), ms(2_000)), (ms(0), ms(2_001)), (ms(2_001), ms(0))];
        let levels = clocks.map(|(ahead, behind)| skew(ahead, behind).level);
        assert_eq!(levels, [Level::Ok, Level::Warning, Level::Warning]);
    }

    #[test]
    fn jobs_that_no_worker_takes_back_are_a_problem() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let lease = LeaseRecord {
            id: LeaseId::new(),
            worker: "w".to_owned(),
            queues: vec![Name::new("q").unwrap()],
            kinds: Vec::new(),
            opened_at: at(0),
            expires_at: at(100),
            is_lost: true,
            running: 2,
        };
        assert_eq!(stuck(&lease, 1, at(130)).level, Level::Warning);
        assert_eq!(stuck(&lease, 0, at(130)).level, Level::Problem);
        let late = stuck(&lease, 1, at(200));
        assert_eq!(
            (late.level, late.what.as_str()),
            (Level::Problem, "2 jobs of worker w wait to be taken back since 1m 40s")
        );
    }

    #[test]
    fn a_promise_that_a_restart_breaks_is_a_problem() {
        assert_eq!(durability(Durability::Server).level, Level::Problem);
        assert_eq!(durability(Durability::Process).level, Level::Warning);
        assert_eq!(durability(Durability::PowerCut).level, Level::Ok);
    }
}
