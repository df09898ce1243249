//! `dead groups`: how many jobs died of which error.

use serde::Serialize;
use windlass::worker::{DeadGroup, DeadGroups};

use super::{check_known, letters};
use crate::args::DeadGroupsArgs;
use crate::exit::Exit;
use crate::output::{cell, json, keep_whole, number, text};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Answer<'a> {
    groups: Vec<GroupJson<'a>>,
    looked: u64,
    all: bool,
    others: u64,
}

#[derive(Debug, Serialize)]
struct GroupJson<'a> {
    fingerprint: String,
    kind: &'a str,
    pattern: &'a str,
    error: &'a str,
    count: u64,
    first_at: String,
    last_at: String,
    ids: Vec<String>,
}

impl<'a> GroupJson<'a> {
    fn of(group: &'a DeadGroup) -> Self {
        Self {
            fingerprint: group.fingerprint.to_string(),
            kind: group.kind.as_str(),
            pattern: &group.pattern,
            error: &group.error,
            count: group.count,
            first_at: json::instant(group.first),
            last_at: json::instant(group.last),
            ids: group.ids.iter().map(ToString::to_string).collect(),
        }
    }
}

pub(crate) async fn run(session: &mut Session, args: &DeadGroupsArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let found = letters(&client, &args.filter).await?.groups(args.reach.look).await?;
    if found.groups.is_empty() && found.is_all {
        check_known(session, &client, &args.filter).await?;
    }
    let DeadGroups { groups, looked, is_all, others, .. } = &found;
    if session.output.is_json() {
        let groups = groups.iter().map(GroupJson::of).collect();
        session.output.json(&Answer { groups, looked: *looked, all: *is_all, others: *others })?;
        return Ok(Exit::Done);
    }
    if !groups.is_empty() {
        print(session, groups)?;
    }
    if *others > 0 {
        session.note(&format!("{others} more jobs died of errors that were too many to keep apart"));
    }
    session.note(&match is_all {
        true => format!("looked at all {looked} dead jobs"),
        false => format!("looked at {looked} dead jobs, there are more: look at more with --look"),
    });
    Ok(Exit::Done)
}

fn print(session: &mut Session, groups: &[DeadGroup]) -> anyhow::Result<()> {
    let format = session.output.format();
    let mut table = session.output.new_table(&["COUNT", "FIRST", "LAST", "KIND", "FINGERPRINT", "ERROR"]);
    for group in groups {
        table.add_row([
            number(group.count),
            cell(text::instant(group.first, format)),
            cell(text::instant(group.last, format)),
            cell(&group.kind),
            cell(group.fingerprint.to_string()),
            cell(text::first_line(&group.pattern)),
        ]);
    }
    keep_whole(&mut table, &[0, 1, 2, 3, 4]);
    Ok(session.output.table(table)?)
}
