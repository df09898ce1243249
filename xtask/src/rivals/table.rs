//! Runs programs in turns, collects what they tell and prints it: a row per program, a column per figure, and
//! below them how ours compare.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::Scale;
use super::program::{Finished, Made, Program, Role};

/// A figure: heading in two lines, `work` of the line, name in it, and how it is shown.
struct Column(&'static str, &'static str, &'static str, &'static str, Unit);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    PerSecond,
    Milliseconds,
    Microseconds,
    Bytes,
}

const COLUMNS: [Column; 11] = [
    Column(
        "enqueue single",
        "by 64 producers",
        "enqueue single by 64 producers",
        "jobs_per_s",
        Unit::PerSecond,
    ),
    Column("enqueue bulk", "of 1,000", "enqueue bulk of 1,000", "jobs_per_s", Unit::PerSecond),
    Column("run jobs", "that wait", "run jobs that wait", "jobs_per_s", Unit::PerSecond),
    Column("end", "to end", "end to end", "jobs_per_s", Unit::PerSecond),
    Column("idle start", "p50", "idle start", "p50_ms", Unit::Milliseconds),
    Column("idle start", "p99", "idle start", "p99_ms", Unit::Milliseconds),
    Column("server CPU", "per job run", "run jobs that wait", "server_cpu_us_per_job", Unit::Microseconds),
    Column("server CPU", "end to end", "end to end", "server_cpu_us_per_job", Unit::Microseconds),
    Column("flows of 11", "to their end", "flows to their end", "flows_per_s", Unit::PerSecond),
    Column("server CPU", "per flow", "flows to their end", "server_cpu_us_per_flow", Unit::Microseconds),
    Column("memory per", "waiting job", "enqueue bulk of 1,000", "memory_bytes_per_job", Unit::Bytes),
];

/// The best of these is what ours is compared with.
#[derive(Debug, Clone, Copy)]
enum Others {
    Rivals,
    Raw,
    /// One library, however it is set.
    Family(&'static str),
}

impl Others {
    fn has(self, program: &Program) -> bool {
        match self {
            Self::Rivals => program.role == Role::Rival,
            Self::Raw => program.role == Role::Raw,
            Self::Family(name) => program.family == Some(name),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rivals => "the fastest rival",
            Self::Raw => "the raw limit",
            Self::Family(name) => name,
        }
    }
}

const HEADING_WIDTH: usize = 42;
const COLUMN_WIDTH: usize = 17;

/// The programs of one store and what they told.
pub(crate) struct Table {
    programs: &'static [Program],
    /// The figures of all rounds, by program and column.
    figures: BTreeMap<(usize, usize), Vec<f64>>,
    /// Why a program told nothing, or not all.
    failures: BTreeMap<usize, String>,
    versions: BTreeSet<String>,
}

impl Table {
    pub(crate) fn new(programs: &'static [Program]) -> Self {
        let (figures, failures, versions) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { programs, figures, failures, versions }
    }

    /// Builds all programs. One that cannot be built is shown as failed, and keeps no other from running.
    pub(crate) fn build(&mut self) {
        let mut built: Vec<(Made, Option<String>)> = Vec::new();
        for (row, program) in self.programs.iter().enumerate() {
            let is_same = |made: &Made| match (made, program.made) {
                // One installation has all scripts.
                (Made::Node(_), Made::Node(_)) => true,
                _ => *made == program.made,
            };
            let known = built.iter().find(|(made, _)| is_same(made)).map(|(_, failure)| failure.clone());
            let failure = known.unwrap_or_else(|| {
                let failure = program.build().err().map(|error| format!("not built: {error:#}"));
                built.push((program.made, failure.clone()));
                failure
            });
            self.failures.extend(failure.map(|failure| (row, failure)));
        }
    }

    /// Runs all programs so many rounds, in turns. `prepare` makes a fresh place and says where it is.
    pub(crate) fn measure(
        &mut self,
        scale: &Scale,
        mut prepare: impl FnMut(&Program) -> Result<Vec<String>>,
    ) -> Result<()> {
        for round in 1..=scale.rounds {
            for (row, program) in self.programs.iter().enumerate() {
                if self.failures.contains_key(&row) {
                    continue;
                }
                eprintln!("… round {round} of {}: {}", scale.rounds, program.heading);
                let mut arguments = prepare(program)?;
                for (name, value) in
                    [("--jobs", scale.jobs), ("--singles", scale.singles), ("--samples", scale.samples)]
                {
                    arguments.extend([name.to_owned(), value.to_owned()]);
                }
                let (lines, outcome) = program.measure(&arguments);
                for line in &lines {
                    self.note(row, line);
                }
                if let Err(error) = outcome {
                    eprintln!("… {} failed: {error:#}", program.heading);
                    self.failures.insert(row, format!("in round {round}: {error:#}"));
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, row: usize, line: &serde_json::Value) {
        let text = |name: &str| line[name].as_str().unwrap_or("?").to_owned();
        self.versions.insert(format!("{} {}", text("who"), text("version")));
        for (column, Column(_, _, work, figure, _)) in COLUMNS.iter().enumerate() {
            if let (true, Some(value)) = (line["work"] == *work, line[*figure].as_f64()) {
                self.figures.entry((row, column)).or_default().push(value);
            }
        }
    }

    pub(crate) fn print(&self, store: &str, scale: &Scale) {
        let versions: Vec<_> = self.versions.iter().map(String::as_str).collect();
        println!("\n{store}; {}", versions.join(", "));
        println!(
            "{} jobs, {} single enqueues, {} idle starts, medians of {}\n",
            scale.jobs, scale.singles, scale.samples, scale.rounds
        );
        // A file has no server whose time could be told.
        let columns: Vec<_> = (0..COLUMNS.len())
            .filter(|column| (0..self.programs.len()).any(|row| self.figures.contains_key(&(row, *column))))
            .collect();
        print_row("", columns.iter().map(|column| COLUMNS[*column].0.to_owned()));
        print_row("", columns.iter().map(|column| COLUMNS[*column].1.to_owned()));
        for (row, program) in self.programs.iter().enumerate() {
            let finished = match program.finished {
                Finished::Kept => "kept",
                Finished::Deleted => "deleted",
            };
            let heading = format!("{:<32}{finished:>8}", program.heading);
            print_row(&heading, columns.iter().map(|column| self.cell(row, *column)));
        }
        self.print_ratios(&columns);
        self.print_rules(&columns);
        for (row, failure) in &self.failures {
            println!("\n{} failed {failure}", self.programs[*row].heading);
        }
    }

    fn cell(&self, row: usize, column: usize) -> String {
        match (self.median(row, column), COLUMNS[column].4) {
            (Some(figure), Unit::PerSecond) => format!("{}/s", thousands(figure)),
            (Some(figure), Unit::Milliseconds) => format!("{figure:.2} ms"),
            (Some(figure), Unit::Microseconds) => format!("{figure:.1} µs"),
            (Some(figure), Unit::Bytes) => format!("{figure:.0} B"),
            (None, _) if self.failures.contains_key(&row) => "failed".into(),
            (None, _) => "-".into(),
        }
    }

    /// How each of ours compares with those that do the same with finished jobs: above 1 it is faster, or takes
    /// less.
    fn print_ratios(&self, columns: &[usize]) {
        let families: BTreeSet<_> = self.programs.iter().filter_map(|program| program.family).collect();
        let others =
            [Others::Rivals, Others::Raw].into_iter().chain(families.into_iter().map(Others::Family));
        let others: Vec<_> = others.collect();
        for (row, ours) in self.programs.iter().enumerate().filter(|(_, program)| program.role == Role::Ours)
        {
            for others in &others {
                let ratios: Vec<_> = columns.iter().map(|column| self.ratio(row, *column, *others)).collect();
                if ratios.iter().any(Option::is_some) {
                    let like = if ours.finished == Finished::Kept { "keeping" } else { "deleting" };
                    let shown =
                        |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2} x"));
                    println!();
                    let name = others.name();
                    print_row(&format!("windlass to {name}, {like}"), ratios.into_iter().map(shown));
                }
            }
        }
    }

    /// How each program with a rule compares with itself without one.
    fn print_rules(&self, columns: &[usize]) {
        if self.programs.iter().any(|program| program.beside.is_some()) {
            println!();
        }
        for (row, program) in self.programs.iter().enumerate() {
            let Some(beside) = program.beside else { continue };
            let ratios = columns.iter().map(|column| self.ratio_beside(row, *column, beside));
            let shown = ratios.map(|ratio| ratio.map_or("-".into(), |ratio| format!("{ratio:.2} x")));
            print_row(&format!("{} to none", program.heading), shown);
        }
    }

    fn ratio_beside(&self, row: usize, column: usize, beside: &str) -> Option<f64> {
        let other = self.programs.iter().position(|program| program.heading == beside)?;
        let (own, other) = (self.median(row, column)?, self.median(other, column)?);
        Some(if COLUMNS[column].4 == Unit::PerSecond { own / other } else { other / own })
    }

    fn ratio(&self, ours: usize, column: usize, others: Others) -> Option<f64> {
        let more_is_better = COLUMNS[column].4 == Unit::PerSecond;
        let is_like =
            |program: &Program| others.has(program) && program.finished == self.programs[ours].finished;
        let like = (0..self.programs.len()).filter(|row| is_like(&self.programs[*row]));
        let figures = like.filter_map(|row| self.median(row, column));
        let own = self.median(ours, column)?;
        if more_is_better {
            figures.max_by(f64::total_cmp).map(|best| own / best)
        } else {
            figures.min_by(f64::total_cmp).map(|best| best / own)
        }
    }

    fn median(&self, row: usize, column: usize) -> Option<f64> {
        let mut sorted = self.figures.get(&(row, column))?.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

fn print_row(heading: &str, cells: impl Iterator<Item = String>) {
    let cells: String = cells.map(|cell| format!("{cell:>COLUMN_WIDTH$}")).collect();
    println!("{heading:<HEADING_WIDTH$}{cells}");
}

/// A whole number with thousands apart.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PROGRAMS: [Program; 6] = [
        Program::new("ours", Made::Node("ours"), Role::Ours, Finished::Kept),
        Program::new("keeps", Made::Node("keeps"), Role::Rival, Finished::Kept),
        Program::new("deletes", Made::Node("deletes"), Role::Rival, Finished::Deleted),
        Program::new("limit", Made::Node("limit"), Role::Raw, Finished::Kept),
        Program::new("known", Made::Node("known"), Role::Rival, Finished::Kept).of("Known"),
        Program::new("ruled", Made::Node("ours"), Role::Shown, Finished::Kept).beside("ours"),
    ];
    const RUN: usize = 2;
    const IDLE_P50: usize = 4;

    fn table(rates: &[(usize, f64)]) -> Table {
        let mut table = Table::new(&PROGRAMS);
        for (row, rate) in rates {
            table.note(*row, &json!({ "work": "run jobs that wait", "jobs_per_s": rate }));
        }
        table
    }

    #[test]
    fn ours_is_compared_with_those_that_do_the_same_with_finished_jobs() {
        let table = table(&[(0, 300.0), (1, 100.0), (2, 900.0), (3, 400.0)]);
        assert_eq!(table.ratio(0, RUN, Others::Rivals), Some(3.0));
        assert_eq!(table.ratio(0, RUN, Others::Raw), Some(0.75));
    }

    #[test]
    fn ours_is_compared_with_a_library_by_its_name_though_another_is_faster() {
        let table = table(&[(0, 300.0), (1, 100.0), (4, 50.0)]);
        assert_eq!(table.ratio(0, RUN, Others::Family("Known")), Some(6.0));
        assert_eq!(table.ratio(0, RUN, Others::Rivals), Some(3.0));
    }

    #[test]
    fn a_rule_is_compared_with_the_same_program_without_it() {
        let table = table(&[(0, 300.0), (5, 150.0)]);
        assert_eq!(table.ratio_beside(5, RUN, "ours"), Some(0.5));
        assert_eq!(table.ratio_beside(5, RUN, "keeps"), None);
    }

    #[test]
    fn a_ratio_above_one_is_in_our_favour_for_times_as_well() {
        let mut table = table(&[]);
        for (row, latency) in [(0, 2.0), (1, 5.0)] {
            table.note(row, &json!({ "work": "idle start", "p50_ms": latency, "p99_ms": 50.0 }));
        }
        assert_eq!(table.ratio(0, IDLE_P50, Others::Rivals), Some(2.5));
        assert_eq!(table.ratio(0, RUN, Others::Rivals), None);
    }

    #[test]
    fn the_median_is_shown_and_a_failure_is_not_hidden() {
        let mut table = table(&[(0, 9_000.0), (0, 1_234.4), (0, 10.0)]);
        table.failures.insert(1, "in round 1: it ended".into());
        assert_eq!(table.cell(0, RUN), "1,234/s");
        assert_eq!(table.cell(1, RUN), "failed");
        assert_eq!(table.cell(2, RUN), "-");
    }
}
