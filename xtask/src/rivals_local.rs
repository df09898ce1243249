//! `cargo xtask rivals-local`: work that does nothing, through the in-process queue, through what else Rust has for
//! bounded concurrency, and through the queues of Node; in turns, on this machine. The programs lie in
//! `benches/rivals/local`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell;

/// What of whom, at which concurrency.
type Key = (String, String, u64);

/// What each of the rounds came to.
#[derive(Default)]
struct Figures {
    rates: Vec<f64>,
    nanos: Vec<f64>,
    allocations: Option<f64>,
}

/// One kind of work, and whom ours are compared with: by this factor they are meant to be ahead.
struct Work {
    name: &'static str,
    meaning: &'static str,
    compared: &'static [(&'static str, f64)],
}

const WORKS: [Work; 6] = [
    Work {
        name: "awaited",
        meaning: "1,000 are added, then all are awaited, again and again",
        compared: &[("fastq, promises", 10.0), ("p-queue", 20.0), ("semaphore and spawn", 4.0)],
    },
    Work {
        name: "burst",
        meaning: "all are added, then all are awaited",
        compared: &[("fastq, promises", 10.0), ("p-queue", 20.0), ("semaphore and spawn", 4.0)],
    },
    Work {
        name: "forgotten",
        meaning: "1,000 are added without their results being wanted, then all are waited for, again and again",
        compared: &[("fastq, callbacks", 0.5), ("async-channel", 0.5), ("flume", 0.5)],
    },
    Work {
        name: "awaited, 2 threads",
        meaning: "as awaited, on a runtime of two threads, which share one queue",
        compared: &[("semaphore and spawn", 1.0)],
    },
    Work {
        name: "burst, 2 threads",
        meaning: "as burst, on a runtime of two threads, which share one queue",
        compared: &[("semaphore and spawn", 1.0)],
    },
    Work {
        name: "forgotten, 2 threads",
        meaning: "as forgotten, on a runtime of two threads, which share one queue",
        compared: &[],
    },
];

/// Builds, runs in turns and prints the medians; instructions too if valgrind is there.
pub(crate) fn run(is_quick: bool) -> Result<()> {
    // Long enough for each to be measured, and no longer: they differ by two orders of magnitude.
    let (rounds, units, on_node) = if is_quick { (1, "100000", "30000") } else { (5, "1000000", "300000") };
    let folder = shell::root().join("benches/rivals/local");
    shell::cargo("build", ["build", "--release", "--locked", "--manifest-path"])
        .args([folder.join("Cargo.toml")])
        .env("CARGO_TARGET_DIR", target().display())
        .run()?;
    shell::program("install", "npm", ["ci", "--no-audit", "--no-fund"]).within(&folder.join("node")).run()?;
    let mut table: BTreeMap<Key, Figures> = BTreeMap::new();
    for round in 1..=rounds {
        eprintln!("… round {round} of {rounds}");
        let mut node = Command::new(folder.join("node/node_modules/.bin/node"));
        node.arg(folder.join("node/local.mjs"));
        let (alone, mut together) =
            (Command::new(binary("rival-local")), Command::new(binary("rival-local")));
        together.args(["--threads", "2"]);
        for (mut program, units) in [(node, on_node), (alone, units), (together, units)] {
            collect(program.args(["--units", units]), &mut table)?;
        }
    }
    collect(&mut Command::new(binary("allocations")), &mut table)?;
    for work in &WORKS {
        print(work, &mut table);
    }
    instructions()
}

fn target() -> PathBuf {
    let base =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from);
    base.join("rivals")
}

fn binary(name: &str) -> PathBuf {
    target().join("release").join(name)
}

/// Runs a program and keeps what it says.
fn collect(program: &mut Command, table: &mut BTreeMap<Key, Figures>) -> Result<()> {
    let output = program.stderr(Stdio::inherit()).output().context("cannot start the program")?;
    if !output.status.success() {
        bail!("{program:?} ended with {}", output.status);
    }
    for line in String::from_utf8(output.stdout)?.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let work = match line["threads"].as_u64() {
            None | Some(1) => text("work"),
            Some(threads) => format!("{}, {threads} threads", text("work")),
        };
        let key = (work, text("who"), line["concurrency"].as_u64().unwrap_or_default());
        let figures = table.entry(key).or_default();
        figures.rates.extend(line["rate"].as_f64());
        figures.nanos.extend(line["nanos"].as_f64());
        figures.allocations = line["allocations"].as_f64().or(figures.allocations);
    }
    Ok(())
}

fn median(figures: &mut [f64]) -> Option<f64> {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

fn print(work: &Work, table: &mut BTreeMap<Key, Figures>) {
    println!("\n{}: {}\n", work.name, work.meaning);
    println!(
        "{:<24} {:>11} {:>13} {:>9} {:>12}",
        "who", "concurrency", "per second", "ns of CPU", "allocations"
    );
    let mut rates = BTreeMap::new();
    for ((_, who, concurrency), figures) in table.iter_mut().filter(|((of, ..), _)| of == work.name) {
        let (rate, nanos) = (median(&mut figures.rates).unwrap_or(0.0), median(&mut figures.nanos));
        rates.insert((who.clone(), *concurrency), rate);
        let nanos = nanos.map_or_else(String::new, |nanos| format!("{nanos:.0}"));
        let allocations = figures.allocations.map_or_else(String::new, |count| format!("{count:.2}"));
        println!("{who:<24} {concurrency:>11} {rate:>13.0} {nanos:>9} {allocations:>12}");
    }
    for (rival, wanted) in work.compared {
        for ours in ["windlass items", "windlass futures"] {
            let ratio = |concurrency| {
                let rate = |who: &str| rates.get(&(who.to_owned(), concurrency)).copied().unwrap_or(0.0);
                format!("{:.1}", rate(ours) / rate(rival))
            };
            let ratios = [1, 10, 100].map(ratio).join(", ");
            println!("  {ours} beside {rival}: {ratios} times at 1, 10, 100; meant to be {wanted} or more");
        }
    }
}

/// Instructions per piece of work: what twice as many need more. Repeatable, whatever else the machine does.
fn instructions() -> Result<()> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("… no valgrind: instructions are not counted");
        return Ok(());
    }
    println!("\ninstructions per piece of work, at concurrency 10\n");
    let whose = ["windlass items", "windlass futures", "semaphore and spawn", "buffer_unordered"];
    let forgotten = ["windlass items", "windlass futures", "async-channel", "flume"];
    let awaited = whose.map(|who| format!("{who}, awaited"));
    for name in awaited.into_iter().chain(forgotten.map(|who| format!("{who}, forgotten"))) {
        let (once, twice) = (counted(&name, 20_000)?, counted(&name, 40_000)?);
        println!("{name:<36} {:>7.0}", (twice - once) / 20_000.0);
    }
    Ok(())
}

fn counted(name: &str, units: u32) -> Result<f64> {
    let file = target().join("callgrind.out");
    let mut command = Command::new("valgrind");
    command
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(binary("rival-local"));
    command.args(["--bare", "--concurrency", "10", "--only", name, "--units", &units.to_string()]);
    let output = command.output().context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("Collected")).context("valgrind counted nothing")?;
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).context("valgrind said no number")
}
