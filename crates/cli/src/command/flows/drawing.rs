//! The drawing of a flow: a numbered line for each job or group of jobs, with its mark and what it waits for. Bounded, however
//! large the flow is.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use windlass::flow::{FlowView, NodeView, Role, Status};

use super::lines::{self, After, Line};

/// The most lines that are drawn.
pub(super) const LINES_MAX: usize = 200;
/// Further layers are not indented further.
const INDENT_MAX: usize = 12;
/// The most lines that one names as what it waits for.
const AFTER_MAX: usize = 6;

/// The lines of text, and what was left out.
pub(super) fn of(view: &FlowView) -> Vec<String> {
    let lines = lines::of(&view.nodes);
    let shown = shown(&view.nodes, &lines);
    let width = lines.len().to_string().len();
    let mut text = Vec::with_capacity(shown.len() + 1);
    for (at, &index) in shown.iter().enumerate() {
        let line = &lines[index];
        let is_last = shown.get(at + 1).is_none_or(|next| lines[*next].layer != line.layer);
        let branch = if is_last { "└─" } else { "├─" };
        let indent = "  ".repeat(line.layer.min(INDENT_MAX));
        text.push(format!("{:>width$} {indent}{branch} {}", index + 1, said(view, &lines, line)));
    }
    text.extend(left_out(&view.nodes, &lines, &shown));
    text
}

/// Which lines are drawn: where there are too many, those first that someone may have to act on.
fn shown(nodes: &[NodeView], lines: &[Line]) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..lines.len()).collect();
    if lines.len() > LINES_MAX {
        shown.sort_by_key(|index| rank(nodes[lines[*index].nodes[0]].status));
        shown.truncate(LINES_MAX);
        shown.sort_unstable();
    }
    shown
}

fn rank(status: Status) -> u8 {
    match status {
        Status::Dead => 0,
        Status::Open => 1,
        Status::Cancelled => 2,
        Status::Failed => 3,
        Status::Waiting => 4,
        Status::Completed | Status::Yielded | Status::Skipped => 5,
    }
}

fn said(view: &FlowView, lines: &[Line], line: &Line) -> String {
    let node = &view.nodes[line.nodes[0]];
    let (mark, style) = mark(node.status);
    let what = match line.nodes.len() {
        1 => format!("{} {}", node.kind, id(node)),
        many => format!("{many} × {}", node.kind),
    };
    let queue = if node.queue == view.home { String::new() } else { format!(" in queue {}", node.queue) };
    let status = node.status.as_str();
    format!("{style}{mark}{style:#} {what} {style}{status}{style:#}{queue}{}", after(node, lines, line))
}

/// The id, as a whole where someone may have to act on the job; else its last part, for the first is alike in all of a flow.
fn id(node: &NodeView) -> String {
    let id = node.id.to_string();
    match (node.status, id.rsplit_once('-')) {
        (Status::Dead | Status::Open | Status::Cancelled, _) | (_, None) => id,
        (_, Some((_, last))) => format!("…{last}"),
    }
}

fn mark(status: Status) -> (char, Style) {
    let (mark, colour) = match status {
        Status::Waiting => ('○', AnsiColor::Yellow),
        Status::Open => ('●', AnsiColor::Cyan),
        Status::Completed | Status::Yielded => ('✔', AnsiColor::Green),
        Status::Dead => ('✘', AnsiColor::Red),
        Status::Cancelled => ('⊘', AnsiColor::Yellow),
        Status::Failed => ('▲', AnsiColor::Red),
        Status::Skipped => ('–', AnsiColor::White),
    };
    (mark, colour.on_default())
}

/// What a job waits for, by the numbers of lines.
fn after(node: &NodeView, lines: &[Line], line: &Line) -> String {
    match node.role {
        Role::Job if line.after.is_empty() => return String::new(),
        Role::Job => {}
        Role::OnSuccess => return ", when all have completed".to_owned(),
        Role::OnEnd => return ", when all have ended".to_owned(),
        Role::OnFirstFailure => return ", when the first has failed".to_owned(),
    }
    let named = line.after.iter().take(AFTER_MAX).map(|After { line, jobs }| {
        let all = lines[*line].nodes.len();
        if *jobs == all { format!("{}", line + 1) } else { format!("{} ({jobs} of {all})", line + 1) }
    });
    let named = named.collect::<Vec<_>>().join(", ");
    match line.after.len().saturating_sub(AFTER_MAX) {
        0 => format!(", after {named}"),
        more => format!(", after {named} and {more} more"),
    }
}

/// What is not drawn, if anything.
fn left_out(nodes: &[NodeView], lines: &[Line], shown: &[usize]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let is_hidden = |(index, _): &(usize, &Line)| shown.binary_search(index).is_err();
    for (_, line) in lines.iter().enumerate().filter(is_hidden) {
        *counts.entry(nodes[line.nodes[0]].status.as_str()).or_default() += line.nodes.len();
    }
    if counts.is_empty() {
        return None;
    }
    let counts: Vec<String> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let hidden = lines.len() - shown.len();
    Some(format!("… {hidden} lines left out: {}; --json has every job", counts.join(", ")))
}
