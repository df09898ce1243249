//! `cargo xtask rivals`: the same work on Windlass and on other job queues in SQLite files, on this machine and
//! in turns, so that whatever else the machine does meets all of them. The programs lie in `benches/rivals`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell;

/// The columns: heading, folder of the program, value of `synchronous`. The first is the one that the others
/// are compared with; the second shows our default, and nobody is compared with it.
const COLUMNS: [(&str, &str, &str); 4] = [
    ("windlass", "windlass", "normal"),
    ("windlass full", "windlass", "full"),
    ("effectum", "effectum", "normal"),
    ("apalis", "apalis", "normal"),
];
const FIRST_RIVAL: usize = 2;

/// The rows: heading, `work` of the line, name of the figure, and whether more of it is better.
const ROWS: [(&str, &str, &str, bool); 5] = [
    ("enqueue single by 64 producers", "enqueue single by 64 producers", "jobs_per_s", true),
    ("enqueue bulk of 1,000", "enqueue bulk of 1,000", "jobs_per_s", true),
    ("run jobs that wait", "run jobs that wait", "jobs_per_s", true),
    ("idle start, p50", "idle start", "p50_ms", false),
    ("idle start, p99", "idle start", "p99_ms", false),
];

/// The figures of all rounds, by column and row.
type Figures = BTreeMap<(usize, usize), Vec<f64>>;

/// Builds the programs, runs them in turns and prints the medians as one table.
pub(crate) fn run(quick: bool) -> Result<()> {
    for folder in ["windlass", "effectum", "apalis"] {
        let manifest = format!("benches/rivals/{folder}/Cargo.toml");
        shell::cargo("build", ["build", "--release", "--locked", "--manifest-path", &manifest])
            .env("CARGO_TARGET_DIR", target().display())
            .run()?;
    }
    let (rounds, jobs, samples) = if quick { (1, "2000", "100") } else { (3, "10000", "300") };
    let mut figures = Figures::new();
    let mut versions = BTreeMap::new();
    for round in 1..=rounds {
        for (column, (heading, folder, synchronous)) in COLUMNS.into_iter().enumerate() {
            eprintln!("… round {round} of {rounds}: {heading}");
            let arguments = ["--jobs", jobs, "--samples", samples, "--synchronous", synchronous];
            for line in measure(folder, &arguments)? {
                versions.insert(line["who"].to_string(), line["version"].to_string());
                for (row, (_, work, figure, _)) in ROWS.into_iter().enumerate() {
                    if let (true, Some(value)) = (line["work"] == work, line[figure].as_f64()) {
                        figures.entry((column, row)).or_default().push(value);
                    }
                }
            }
        }
    }
    let versions: Vec<_> = versions.iter().map(|(who, version)| format!("{who} {version}")).collect();
    println!("{}; {jobs} jobs, median of {rounds}\n", versions.join(", ").replace('"', ""));
    print(&figures)
}

/// Runs one program in a fresh folder beside the build, not in a temporary one that may be held in memory.
fn measure(program: &str, arguments: &[&str]) -> Result<Vec<Value>> {
    let folder = target().join("files");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let path = target().join(format!("release/rival-{program}"));
    let output = Command::new(&path)
        .args(arguments)
        .arg("--dir")
        .arg(&folder)
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", path.display()))?;
    fs::remove_dir_all(&folder)?;
    if !output.status.success() {
        bail!("{program} failed ({})", output.status);
    }
    let lines = str::from_utf8(&output.stdout)?.lines();
    lines
        .map(|line| serde_json::from_str(line).context("a program printed something else than JSON"))
        .collect()
}

fn print(figures: &Figures) -> Result<()> {
    print!("{:<32}", "work");
    for (heading, _, _) in COLUMNS {
        print!("{heading:>16}");
    }
    println!("{:>25}", "to the fastest rival");
    for (row, (heading, work, _, more_is_better)) in ROWS.into_iter().enumerate() {
        print!("{heading:<32}");
        let mut medians = Vec::new();
        for (column, (who, _, _)) in COLUMNS.into_iter().enumerate() {
            let median = figures.get(&(column, row)).map(|values| median(values));
            let median = median.with_context(|| format!("{who} said nothing on {work}"))?;
            let text = if more_is_better { format!("{median:.0}/s") } else { format!("{median:.2} ms") };
            print!("{text:>16}");
            medians.push(median);
        }
        let rivals = medians[FIRST_RIVAL..].iter().copied();
        let ratio = if more_is_better {
            medians[0] / rivals.fold(f64::MIN, f64::max)
        } else {
            rivals.fold(f64::MAX, f64::min) / medians[0]
        };
        println!("{:>25}", format!("{ratio:.2} x as fast"));
    }
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn target() -> PathBuf {
    let base =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from);
    base.join("rivals")
}
