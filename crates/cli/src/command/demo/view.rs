//! What one sees while a demo runs: a bar per kind on a terminal, lines elsewhere, nothing with `--json`.

use std::collections::HashMap;
use std::io::{self, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use windlass_core::JobId;

use super::kinds::{KINDS, Kind};
use crate::output::Format;
use crate::session::Session;

#[derive(Debug)]
pub(super) enum View {
    Bars { all: MultiProgress, bars: HashMap<&'static str, ProgressBar> },
    Lines { begun: std::time::Instant },
    Silent,
}

impl View {
    pub(super) fn new(session: &Session, jobs: &[(JobId, &'static Kind)]) -> Self {
        match session.output.format() {
            Format::Json => Self::Silent,
            Format::Plain => Self::Lines { begun: std::time::Instant::now() },
            Format::Terminal => Self::bars(jobs),
        }
    }

    fn bars(jobs: &[(JobId, &'static Kind)]) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        // Without colours of its own, so that NO_COLOR needs no care here.
        let style = ProgressStyle::with_template("  {prefix:13} {bar:28} {pos:>5}/{len:<5} {msg}")
            .map(|style| style.progress_chars("█▉▊▋▌▍▎▏ "))
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bars = KINDS
            .iter()
            .map(|kind| {
                let count = jobs.iter().filter(|(_, of)| of.name == kind.name).count();
                let bar = all.add(ProgressBar::new(u64::try_from(count).unwrap_or(u64::MAX)));
                bar.set_style(style.clone());
                bar.set_prefix(kind.name);
                bar.set_message(kind.shows);
                (kind.name, bar)
            })
            .collect();
        Self::Bars { all, bars }
    }

    /// A line about something that happened.
    pub(super) fn say(&mut self, line: &str) -> io::Result<()> {
        match self {
            Self::Bars { all, .. } => all.println(line),
            Self::Lines { begun } => {
                let mut stdout = io::stdout();
                writeln!(stdout, "{:5.1}s  {line}", begun.elapsed().as_secs_f64())?;
                stdout.flush()
            }
            Self::Silent => Ok(()),
        }
    }

    /// One more job of this kind has come to its end.
    pub(super) fn finished(&mut self, kind: &str) {
        if let Self::Bars { bars, .. } = self
            && let Some(bar) = bars.get(kind)
        {
            bar.inc(1);
        }
    }

    /// Leaves the bars as they are and the cursor below them.
    pub(super) fn close(&mut self) {
        if let Self::Bars { bars, .. } = self {
            bars.values().for_each(ProgressBar::abandon);
        }
    }
}
