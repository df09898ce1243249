//! What only this store can say of its health: the settings and the condition of each server. Asked by `INFO`, `CONFIG`,
//! `SLOWLOG` and `CLUSTER INFO`; what a host refuses to tell is a finding.

use async_trait::async_trait;
use redis::Value;
use windlass_core::store::{Checkup, Depth, Finding, StoreResult};

use crate::RedisStore;
use crate::connect::Call;
use crate::error::{Effect, Fault};
use crate::options::Target;
use crate::session::Session;

/// How many calls a log of slow calls may have before it is worth a look.
const SLOW_MAX: i64 = 100;

#[async_trait]
impl Checkup for RedisStore {
    async fn examine(&self, _depth: Depth) -> StoreResult<Vec<Finding>> {
        self.remote
            .call(Call::READ, async move |_, session| {
                let mut findings = Vec::new();
                let targets = session.servers().router.targets().await?;
                for target in &targets {
                    match one(&session, target).await {
                        Ok(more) => findings.extend(more),
                        Err(fault) => {
                            let remedy = "start it, or let the Cluster fail over; its queues wait";
                            let what = format!("it cannot be asked: {}", fault.into_error(Effect::Read));
                            findings.push(Finding::problem(format!("server {target}"), what, remedy));
                        }
                    }
                }
                if session.is_cluster()
                    && let Some(target) = targets.first()
                {
                    findings.push(cluster(&said(&session, target, &["CLUSTER", "INFO"]).await?));
                }
                Ok(findings)
            })
            .await
    }
}

async fn one(session: &Session, target: &Target) -> Result<Vec<Finding>, Fault> {
    let info = Info(said(session, target, &["INFO"]).await?);
    if info.0.is_empty() {
        let remedy = "let the user say INFO (+info)";
        return Ok(vec![Finding::warning(format!("server {target}"), "it does not tell of itself", remedy)]);
    }
    let mut findings = of_info(&info, &target.to_string());
    let slow = said(session, target, &["SLOWLOG", "LEN"]).await?.parse().unwrap_or(0);
    if slow >= SLOW_MAX {
        let what = format!("its log of slow calls has {slow}");
        let remedy = "SLOWLOG GET 10 names them: other programs, swapping, or a disk that is slow to sync";
        findings.push(Finding::warning(format!("server {target}"), what, remedy));
    }
    Ok(findings)
}

/// The answer as text; empty where it is refused.
async fn said(session: &Session, target: &Target, words: &[&str]) -> Result<String, Fault> {
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(*word);
    });
    match session.command_at(target, &command).await {
        Ok(Value::BulkString(text)) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Ok(Value::VerbatimString { text, .. } | Value::SimpleString(text)) => Ok(text),
        Ok(Value::Int(number)) => Ok(number.to_string()),
        Ok(_) => Ok(String::new()),
        Err(Fault::Server(error)) if error.code == "NOPERM" || error.code == "ERR" => Ok(String::new()),
        Err(fault) => Err(fault),
    }
}

/// Lines of names and values.
struct Info(String);

impl Info {
    fn of(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    fn number(&self, name: &str) -> u64 {
        self.of(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

fn of_info(info: &Info, target: &str) -> Vec<Finding> {
    let subject = |what: &str| format!("{what} of {target}");
    let mut findings = Vec::new();
    let version = info.of("redis_version").unwrap_or("unknown");
    findings.push(Finding::ok(subject("version"), format!("Redis {version}")));
    let evicted = info.number("evicted_keys");
    findings.push(match info.of("maxmemory_policy") {
        Some("noeviction") if evicted == 0 => Finding::ok(subject("eviction"), "none (noeviction)"),
        policy => Finding::problem(
            subject("eviction"),
            format!("maxmemory-policy {}, {evicted} keys were thrown away", policy.unwrap_or("unknown")),
            "CONFIG SET maxmemory-policy noeviction: accepted jobs are keys",
        ),
    });
    findings.push(persistence(info, subject("persistence")));
    findings.push(memory(info.number("used_memory"), info.number("maxmemory"), subject("memory")));
    if info.of("role") == Some("slave") {
        findings.push(Finding::problem(subject("role"), "it is a replica", "name the primary in the URL"));
    }
    let link = info.of("master_link_status");
    if link == Some("down") {
        findings.push(Finding::warning(
            subject("replication"),
            "its link is down",
            "see why it lost its primary",
        ));
    }
    findings
}

fn persistence(info: &Info, subject: String) -> Finding {
    let is_appending = info.of("aof_enabled") == Some("1");
    let failed = ["aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"]
        .into_iter()
        .filter(|name| info.of(name) == Some("err"))
        .collect::<Vec<_>>();
    match (is_appending, failed.is_empty()) {
        (_, false) => Finding::problem(
            subject,
            format!("the last write failed: {}", failed.join(", ")),
            "make room on its disk and see its log: what it accepts may be lost",
        ),
        (true, true) => Finding::ok(subject, "it appends to a file"),
        (false, true) => Finding::warning(
            subject,
            "no file is appended to: what came after the last snapshot goes with the server",
            "CONFIG SET appendonly yes, and write it to its configuration",
        ),
    }
}

fn memory(used: u64, most: u64, subject: String) -> Finding {
    let used_mib = used >> 20;
    if most == 0 {
        return Finding::ok(subject, format!("{used_mib} MiB are used, without a limit"));
    }
    let what = format!("{used_mib} of {} MiB are used", most >> 20);
    match used.saturating_mul(10) > most.saturating_mul(8) {
        true => Finding::warning(subject, what, "raise maxmemory, or keep finished jobs for less time"),
        false => Finding::ok(subject, what),
    }
}

fn cluster(text: &str) -> Finding {
    let info = Info(text.to_owned());
    let failed = info.number("cluster_slots_fail") + info.number("cluster_slots_pfail");
    match (info.of("cluster_state"), failed) {
        (Some("ok"), 0) => Finding::ok("cluster", format!("{} nodes", info.number("cluster_known_nodes"))),
        (None, _) => {
            Finding::warning("cluster", "it does not tell its state", "let the user say CLUSTER INFO")
        }
        (state, failed) => Finding::problem(
            "cluster",
            format!("state {}, {failed} slots fail", state.unwrap_or_default()),
            "CLUSTER NODES names the nodes that are away; their queues wait",
        ),
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::store::Level;

    use super::*;

    fn levels(text: &str) -> Vec<(String, Level)> {
        let findings = of_info(&Info(text.to_owned()), "h:1");
        findings.into_iter().map(|finding| (finding.subject, finding.level)).collect()
    }

    #[test]
    fn a_server_that_keeps_what_it_accepts_is_well() {
        let well = "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n\
            aof_last_write_status:ok\r\nused_memory:8\r\nmaxmemory:0\r\nrole:master\r\n";
        assert!(levels(well).iter().all(|(_, level)| *level == Level::Ok), "{:?}", levels(well));
    }

    #[test]
    fn what_loses_jobs_is_told() {
        let ill = "maxmemory_policy:allkeys-lru\nevicted_keys:7\naof_enabled:1\naof_last_write_status:err\n\
            used_memory:90\nmaxmemory:100\nrole:slave\nmaster_link_status:down\n";
        let found = levels(ill);
        let of =
            |what: &str| found.iter().find(|(subject, _)| subject == &format!("{what} of h:1")).unwrap().1;
        assert_eq!(["eviction", "persistence", "role"].map(of), [Level::Problem; 3]);
        assert_eq!(["memory", "replication"].map(of), [Level::Warning; 2]);
        let snapshots = "maxmemory_policy:noeviction\naof_enabled:0\n";
        assert_eq!(levels(snapshots)[2].1, Level::Warning);
    }

    #[test]
    fn a_cluster_with_slots_that_fail_is_a_problem() {
        assert_eq!(cluster("cluster_state:ok\r\ncluster_slots_fail:0\r\n").level, Level::Ok);
        assert_eq!(cluster("cluster_state:fail\r\ncluster_slots_fail:5461\r\n").level, Level::Problem);
        assert_eq!(cluster("").level, Level::Warning);
    }
}
