//! One program of `benches/rivals`: how it is built and run, and what it is compared with.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::target;
use crate::shell;

/// A program that takes longer hangs. The slowest take a few minutes.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// A program with its arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) heading: &'static str,
    pub(crate) made: Made,
    pub(crate) role: Role,
    pub(crate) finished: Finished,
    /// The library's name, if ours are compared with it by name as well, whichever is faster.
    pub(crate) family: Option<&'static str>,
    /// The heading of the same program without a rule, if it has one.
    pub(crate) beside: Option<&'static str>,
    arguments: &'static [&'static str],
}

/// What builds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// A crate in this folder.
    Cargo(&'static str),
    /// A script of this name.
    Node(&'static str),
}

/// What it is in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Ours,
    Rival,
    /// The limit that none can pass.
    Raw,
    /// Shown, and compared with none.
    Shown,
}

/// What becomes of finished jobs. Keeping them costs something, so each is compared with its like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished {
    Kept,
    Deleted,
}

impl Program {
    pub(crate) const fn new(heading: &'static str, made: Made, role: Role, finished: Finished) -> Self {
        Self { heading, made, role, finished, family: None, beside: None, arguments: &[] }
    }

    /// Its own arguments, which win over those that all get.
    pub(crate) const fn with(mut self, arguments: &'static [&'static str]) -> Self {
        self.arguments = arguments;
        self
    }

    pub(crate) const fn of(mut self, family: &'static str) -> Self {
        self.family = Some(family);
        self
    }

    /// It is shown beside another one, which differs by a rule that never binds.
    pub(crate) const fn beside(mut self, heading: &'static str) -> Self {
        self.beside = Some(heading);
        self
    }

    /// Builds what it needs, or finds that built.
    pub(crate) fn build(&self) -> Result<()> {
        match self.made {
            Made::Cargo(folder) => Self::build_folder(folder),
            Made::Node(_) => shell::program("install", "npm", ["ci", "--no-audit", "--no-fund"])
                .within(&shell::root().join("benches/rivals/node"))
                .run(),
        }
    }

    /// Builds the crate in a folder.
    pub(crate) fn build_folder(folder: &str) -> Result<()> {
        let manifest = format!("benches/rivals/{folder}/Cargo.toml");
        shell::cargo("build", ["build", "--release", "--locked", "--manifest-path", &manifest])
            .env("CARGO_TARGET_DIR", target().display())
            .run()
    }

    /// Runs it and answers the lines that it printed, and why it did not print them all.
    pub(crate) fn measure(&self, arguments: &[String]) -> (Vec<Value>, Result<()>) {
        let mut command = self.command();
        command.args(arguments).args(self.arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = match command.spawn().with_context(|| format!("cannot start {}", self.heading)) {
            Ok(child) => child,
            Err(error) => return (Vec::new(), Err(error)),
        };
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        // Shown as they come, so that a run that breaks off has told something.
        let show = |line: String| {
            eprintln!("  {line}");
            serde_json::from_str(&line)
        };
        let reader =
            std::thread::spawn(move || output.lines().map_while(Result::ok).map(show).collect::<Vec<_>>());
        let ended = wait(&mut child);
        let lines = reader.join().expect("the reader does not panic");
        let is_json = lines.iter().all(Result::is_ok);
        let outcome = match ended {
            Ok(status) if !status.success() => Err(anyhow::anyhow!("it ended with {status}")),
            Ok(_) if !is_json => Err(anyhow::anyhow!("it printed something else than JSON")),
            other => other.map(drop),
        };
        (lines.into_iter().flatten().collect(), outcome)
    }

    fn command(&self) -> Command {
        match self.made {
            Made::Cargo(folder) => Command::new(target().join(format!("release/{}", binary_name(folder)))),
            Made::Node(script) => {
                let folder = shell::root().join("benches/rivals/node");
                let mut command = Command::new(folder.join("node_modules/.bin/node"));
                command.arg(folder.join(format!("{script}.mjs")));
                command
            }
        }
    }
}

/// The name of what a folder builds.
pub(crate) fn binary_name(folder: &str) -> String {
    format!("rival-{}", folder.replace('/', "-"))
}

fn wait(child: &mut Child) -> Result<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("it had not ended after {} minutes", PATIENCE.as_secs() / 60);
        }
        // Nothing tells when a program ends; a look now and then disturbs nothing.
        std::thread::sleep(Duration::from_millis(50));
    }
}
