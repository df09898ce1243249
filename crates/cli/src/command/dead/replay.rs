//! `dead replay`: sends dead jobs back, with a count before, a bar meanwhile, and the command that goes on with one that ended
//! early.

use std::fmt::Write;
use std::io::IsTerminal;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use windlass::Client;
use windlass::worker::{DeadLetters, Replay, ReplaySummary};
use windlass_core::clock::Timestamp;

use super::{check_expected, check_known, jobs};
use crate::args::parse::When;
use crate::args::{DeadFilterArgs, DeadReplayArgs};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::output::clean;
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Answer {
    matched: u64,
    began_at: String,
    replayed: u64,
    left: u64,
    died_again: u64,
    stopped: bool,
    interrupted: bool,
    /// The command that goes on with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    go_on: Option<String>,
}

pub(crate) async fn run(session: &mut Session, args: &DeadReplayArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let now = client.store().now().await?;
    let began = args.begun_at.map_or(now, |at| Timestamp::from(at).min(now));
    let filter = fixed(&args.filter, now);
    let letters = letters(&client, &filter, now, began)?;
    // The replay leaves alone what dies after this instant, so what is counted here is what it would send back.
    let (matched, _) = letters.count(u64::MAX).await?;
    if matched == 0 {
        check_known(session, &client, &args.filter).await?;
    }
    let Some(expected) = args.expect else { return preview(session, matched, began) };
    check_expected(matched, expected, "send")?;
    let mut replay = letters.replay().begun_at(began);
    if let Some(rate) = args.rate {
        replay = replay.rate(rate);
    }
    if let Some(deaths) = args.stop_after {
        replay = replay.stop_after(deaths);
    }
    let most = args.most.unwrap_or(u64::MAX);
    let goal = matched.min(most);
    let summary = match sent_back(replay.most(most), goal).await {
        Ok(Some(summary)) => summary,
        ended => {
            // How far it came is not known here: the command that goes on counts what is left.
            session.note(&format!("to go on: {}", go_on(args, &filter, began, None)));
            return ended.map(|_interrupted| Exit::Interrupted);
        }
    };
    let is_cut_short = summary.is_interrupted || summary.is_stopped;
    let go_on = is_cut_short.then(|| go_on(args, &filter, began, Some((matched, summary.replayed))));
    print(session, matched, &summary, go_on)
}

/// The filter with instants in place of spans of time, which mean another instant later.
fn fixed(filter: &DeadFilterArgs, now: Timestamp) -> DeadFilterArgs {
    let [since, before] = [filter.since, filter.before].map(|when| when.map(|when| When::At(when.at(now))));
    DeadFilterArgs { since, before, ..filter.clone() }
}

/// What matches and had died when the replay began.
fn letters(
    client: &Client,
    filter: &DeadFilterArgs,
    now: Timestamp,
    began: Timestamp,
) -> windlass::Result<DeadLetters> {
    let before = filter.before.map_or(began, |before| Timestamp::from(before.at(now)).min(began));
    let filter = DeadFilterArgs { before: Some(When::At(before.into())), ..filter.clone() };
    Ok(client.dead(filter.at(now)?))
}

fn preview(session: &mut Session, matched: u64, began: Timestamp) -> anyhow::Result<Exit> {
    if session.output.is_json() {
        let began_at = began.to_string();
        let (stopped, interrupted) = (false, false);
        let (replayed, left, died_again, go_on) = (0, 0, 0, None);
        session.output.json(&Answer {
            matched,
            began_at,
            replayed,
            left,
            died_again,
            stopped,
            interrupted,
            go_on,
        })?;
    } else {
        session.output.line(format_args!("{} would be sent back", jobs(matched)))?;
    }
    if matched > 0 {
        session.note(&format!("nothing was changed; to send them back, repeat with --expect {matched}"));
    }
    Ok(Exit::Done)
}

/// Runs it until its end or Ctrl-C, which lets the step that runs come to its end; a second one does not.
async fn sent_back(replay: Replay, goal: u64) -> anyhow::Result<Option<ReplaySummary>> {
    let mut interrupt = Interrupt::listen()?;
    let stop = Arc::new(AtomicBool::new(false));
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(goal) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos} of {len} sent back, {per_sec}, {eta}") {
        bar.set_style(style);
    }
    let replay = replay.stop_on(Arc::clone(&stop));
    let mut run = pin!(replay.run_with(|summary| bar.set_position(summary.replayed)));
    let ended = loop {
        tokio::select! {
            ended = &mut run => break ended.map(Some),
            () = interrupt.heard() => {
                if stop.swap(true, Ordering::Relaxed) {
                    break Ok(None);
                }
            }
        }
    };
    bar.finish_and_clear();
    Ok(ended?)
}

fn print(
    session: &mut Session,
    matched: u64,
    summary: &ReplaySummary,
    go_on: Option<String>,
) -> anyhow::Result<Exit> {
    let ReplaySummary { began, replayed, left, died_again, is_stopped, is_interrupted, .. } = *summary;
    if session.output.is_json() {
        let began_at = began.to_string();
        let (stopped, interrupted) = (is_stopped, is_interrupted);
        session.output.json(&Answer {
            matched,
            began_at,
            replayed,
            left,
            died_again,
            stopped,
            interrupted,
            go_on,
        })?;
    } else {
        let left = match left {
            0 => String::new(),
            _ => format!(
                "; {left} were left, because another job has their unique key or they changed meanwhile"
            ),
        };
        session.output.line(format_args!("sent back: {}{left}", jobs(replayed)))?;
        if is_stopped {
            session.output.line(format_args!("stopped: {} died again", jobs(died_again)))?;
        }
        if let Some(go_on) = go_on {
            session.output.line(format_args!("to go on: {}", clean::line(&go_on)))?;
            if session.typed_url().is_some() {
                session.note("it needs the same --store");
            }
        }
    }
    Ok(match (is_interrupted, is_stopped || left > 0) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Failed,
        (false, false) => Exit::Done,
    })
}

/// The command that sends back what is left. Without what was sent back until now it only counts. The store is not said, for
/// its URL may hold a password.
fn go_on(
    args: &DeadReplayArgs,
    filter: &DeadFilterArgs,
    began: Timestamp,
    done: Option<(u64, u64)>,
) -> String {
    let mut command = "windlass dead replay".to_owned();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            // Writing to a text does not fail.
            let _ = write!(command, " --{name} {}", word(&value));
        }
    };
    let at = |when: Option<When>| when.map(|when| Timestamp::from(when.at(began)).to_string());
    add("queue", filter.queue.as_ref().map(ToString::to_string));
    add("kind", filter.kind.as_ref().map(ToString::to_string));
    add("tag", filter.tag.as_ref().map(ToString::to_string));
    add("error", filter.error.clone());
    add("fingerprint", filter.fingerprint.map(|fingerprint| fingerprint.to_string()));
    for (path, value) in &filter.fields {
        add("field", Some(format!("{path}={value}")));
    }
    add("since", at(filter.since));
    add("before", at(filter.before));
    add("rate", args.rate.map(|rate| rate.to_string()));
    add("stop-after", args.stop_after.map(|deaths| deaths.to_string()));
    let replayed = done.map_or(0, |(_, replayed)| replayed);
    add("most", args.most.map(|most| most.saturating_sub(replayed).max(1).to_string()));
    add("begun-at", Some(began.to_string()));
    add("expect", done.map(|(matched, replayed)| matched.saturating_sub(replayed).to_string()));
    command
}

/// A value as one word of a shell.
fn word(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:=/@%+,".contains(c);
    match !value.is_empty() && value.chars().all(is_plain) && !value.starts_with('-') {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_word_for_a_shell() {
        for (value, said) in [
            ("mail.send", "mail.send"),
            ("2026-11-18T09:00:00.5Z", "2026-11-18T09:00:00.5Z"),
            ("timed out", "'timed out'"),
            ("it's; rm -rf $HOME", "'it'\\''s; rm -rf $HOME'"),
            ("", "''"),
            ("-x", "'-x'"),
        ] {
            assert_eq!(word(value), said);
        }
    }
}
