//! `dead rules`: which dead jobs are sent back by themselves.

use serde::Serialize;
use windlass::worker::DeadRule;

use crate::args::{DeadRuleRemoveArgs, DeadRuleSetArgs, DeadRulesArgs, DeadRulesCommand};
use crate::exit::Exit;
use crate::output::{cell, clean, keep_whole, text};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct RuleJson<'a> {
    queue: &'a str,
    name: &'a str,
    kind: Option<&'a str>,
    fingerprint: Option<String>,
    error: Option<&'a str>,
    after_seconds: u64,
    most: u32,
}

#[derive(Debug, Serialize)]
struct RulesJson<'a> {
    rules: Vec<RuleJson<'a>>,
}

#[derive(Debug, Serialize)]
struct Removed<'a> {
    queue: &'a str,
    name: &'a str,
    removed: bool,
}

impl<'a> RuleJson<'a> {
    fn of(rule: &'a DeadRule) -> Self {
        Self {
            queue: rule.queue.as_str(),
            name: rule.name.as_str(),
            kind: rule.kind.as_ref().map(windlass_core::Name::as_str),
            fingerprint: rule.fingerprint.map(|fingerprint| fingerprint.to_string()),
            error: rule.error.as_deref(),
            after_seconds: rule.after.as_secs(),
            most: rule.most,
        }
    }
}

pub(crate) async fn run(session: &mut Session, args: DeadRulesArgs) -> anyhow::Result<Exit> {
    match args.command {
        DeadRulesCommand::List => list(session).await,
        DeadRulesCommand::Set(args) => set(session, &args).await,
        DeadRulesCommand::Remove(args) => remove(session, &args).await,
    }
}

async fn list(session: &mut Session) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let rules = client.dead_rules().await?;
    if session.output.is_json() {
        session.output.json(&RulesJson { rules: rules.iter().map(RuleJson::of).collect() })?;
        return Ok(Exit::Done);
    }
    if rules.is_empty() {
        session.note("no rules");
        return Ok(Exit::Done);
    }
    let mut table = session.output.new_table(&["QUEUE", "RULE", "WHICH", "AFTER", "MOST"]);
    for rule in &rules {
        table.add_row([
            cell(&rule.queue),
            cell(&rule.name),
            cell(which(rule)),
            cell(text::duration(rule.after)),
            cell(rule.most.to_string()),
        ]);
    }
    keep_whole(&mut table, &[0, 1, 3, 4]);
    session.output.table(table)?;
    Ok(Exit::Done)
}

async fn set(session: &mut Session, args: &DeadRuleSetArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let mut rule = DeadRule::new(&args.queue, &args.name)?.after(args.after).most(args.most);
    rule.kind = args.kind.clone();
    (rule.fingerprint, rule.error) = (args.fingerprint, args.error.clone());
    client.set_dead_rule(&rule).await?;
    if session.output.is_json() {
        session.output.json(&RuleJson::of(&rule))?;
        return Ok(Exit::Done);
    }
    let times = if rule.most == 1 { "once".to_owned() } else { format!("at most {} times", rule.most) };
    session.output.line(format_args!(
        "dead jobs of {}, {}, are sent back {} after their death, each {times}",
        rule.queue,
        which(&rule),
        text::duration(rule.after),
    ))?;
    Ok(Exit::Done)
}

async fn remove(session: &mut Session, args: &DeadRuleRemoveArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let DeadRuleRemoveArgs { queue, name } = args;
    if !client.remove_dead_rule(queue, name).await? {
        session.complain(&format!("queue {queue} has no rule {name}: windlass dead rules list shows all"));
        return Ok(Exit::NotFound);
    }
    if session.output.is_json() {
        session.output.json(&Removed { queue: queue.as_str(), name: name.as_str(), removed: true })?;
    } else {
        session.output.line(format_args!("the rule {name} of queue {queue} is removed"))?;
    }
    Ok(Exit::Done)
}

/// Which jobs a rule is about, for people.
fn which(rule: &DeadRule) -> String {
    let parts = [
        rule.kind.as_ref().map(|kind| format!("kind {kind}")),
        rule.fingerprint.map(|fingerprint| format!("fingerprint {fingerprint}")),
        rule.error.as_ref().map(|error| format!("error with {}", clean::line(error))),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
}
