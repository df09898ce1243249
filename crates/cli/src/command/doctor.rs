//! `doctor`: examines a store, what waits in it and who serves it. One line for each check, with a remedy where one is needed.

use comfy_table::{Attribute, Cell, Color};
use serde::Serialize;
use windlass_core::store::{Depth, Finding, Level};

use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::output::json::durability;
use crate::output::{cell, keep_whole};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Report<'a> {
    scheme: &'static str,
    place: &'a str,
    durability: &'static str,
    problems: usize,
    warnings: usize,
    findings: Vec<FindingJson<'a>>,
}

#[derive(Debug, Serialize)]
struct FindingJson<'a> {
    subject: &'a str,
    level: &'static str,
    what: &'a str,
    remedy: Option<&'a str>,
}

pub(crate) async fn run(session: &mut Session, args: &DoctorArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let findings = client.examine(if args.deep { Depth::Deep } else { Depth::Quick }).await?;
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    if session.output.is_json() {
        let about = client.about();
        session.output.json(&Report {
            scheme: about.scheme,
            place: &about.place,
            durability: durability(about.durability),
            problems,
            warnings,
            findings: findings.iter().map(FindingJson::of).collect(),
        })?;
    } else {
        print(session, &findings)?;
        session.output.line(format_args!("{problems} problems, {warnings} warnings"))?;
    }
    Ok(match (problems, warnings) {
        (1.., _) => Exit::Problems,
        (_, 1..) if args.strict => Exit::Failed,
        _ => Exit::Done,
    })
}

impl<'a> FindingJson<'a> {
    fn of(finding: &'a Finding) -> Self {
        Self {
            subject: &finding.subject,
            level: finding.level.as_str(),
            what: &finding.what,
            remedy: finding.remedy.as_deref(),
        }
    }
}

fn print(session: &mut Session, findings: &[Finding]) -> anyhow::Result<()> {
    let mut table = session.output.new_table(&["LEVEL", "SUBJECT", "WHAT", "REMEDY"]);
    for finding in findings {
        let level = Cell::new(finding.level.as_str());
        let level = match finding.level {
            Level::Ok => level.fg(Color::Green),
            Level::Warning => level.fg(Color::Yellow),
            Level::Problem => level.fg(Color::Red).add_attribute(Attribute::Bold),
        };
        let remedy = finding.remedy.as_deref().unwrap_or_default();
        table.add_row([level, cell(&finding.subject), cell(&finding.what), cell(remedy)]);
    }
    keep_whole(&mut table, &[0]);
    Ok(session.output.table(table)?)
}
