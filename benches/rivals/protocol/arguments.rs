//! What a program is told: how much to do, and where.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// The databases that a work is done in. A Redis server has numbers for them: their places in this list.
const DATABASES: [&str; 5] = ["bulk", "whole", "single", "idle", "flows"];

/// What becomes of finished jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished {
    Kept,
    Deleted,
}

/// A rule of the queue that never binds, for those that have such rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "not every library has rules")]
pub(crate) enum Rule {
    None,
    Rate,
    Concurrency,
    Unique,
}

/// Where a queue is opened, and how. A program takes of it what its library knows.
#[derive(Debug, Clone)]
#[allow(dead_code, reason = "a file has no connections, and a server no mode of a file")]
pub(crate) struct Place {
    /// The path of a SQLite file that does not exist yet, or the URL of an empty database of a server.
    pub(crate) at: String,
    /// SQLite's `synchronous`.
    pub(crate) synchronous: String,
    /// What becomes of finished jobs, for those that can do both.
    pub(crate) finished: Finished,
    /// What it costs to have this rule is what is measured.
    pub(crate) rule: Rule,
    /// How many connections run jobs, where that is not for the library to say.
    pub(crate) connections: usize,
}

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) jobs: u32,
    pub(crate) singles: u32,
    pub(crate) samples: u32,
    pub(crate) server_pid: Option<u32>,
    dir: PathBuf,
    server: Option<String>,
    place: Place,
}

impl Arguments {
    pub(crate) fn parse() -> Result<Self> {
        let place = Place {
            at: String::new(),
            synchronous: "normal".into(),
            finished: Finished::Kept,
            rule: Rule::None,
            connections: 4,
        };
        let (dir, server, server_pid) = (PathBuf::from("."), None, None);
        let mut parsed = Self { jobs: 20_000, singles: 20_000, samples: 300, server_pid, dir, server, place };
        let mut words = std::env::args().skip(1);
        while let Some(name) = words.next() {
            let value = words.next().with_context(|| format!("{name} needs a value"))?;
            parsed.take(&name, &value)?;
        }
        if parsed.jobs == 0 || parsed.singles == 0 || parsed.samples == 0 || parsed.place.connections == 0 {
            bail!("--jobs, --singles, --samples and --connections must be at least 1");
        }
        Ok(parsed)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<()> {
        let number = || value.parse().with_context(|| format!("{name} is a number"));
        match name {
            "--jobs" => self.jobs = number()?,
            "--singles" => self.singles = number()?,
            "--samples" => self.samples = number()?,
            "--dir" => self.dir = value.into(),
            "--synchronous" => self.place.synchronous = value.into(),
            "--server" => self.server = Some(value.trim_end_matches('/').into()),
            "--server-pid" => self.server_pid = Some(number()?),
            "--connections" => self.place.connections = number()? as usize,
            "--finished" => {
                self.place.finished = match value {
                    "kept" => Finished::Kept,
                    "deleted" => Finished::Deleted,
                    _ => bail!("--finished is kept or deleted"),
                }
            }
            "--rule" => {
                self.place.rule = match value {
                    "none" => Rule::None,
                    "rate" => Rule::Rate,
                    "concurrency" => Rule::Concurrency,
                    "unique" => Rule::Unique,
                    _ => bail!("--rule is none, rate, concurrency or unique"),
                }
            }
            _ => bail!(
                "{name} is unknown; known are --jobs, --singles, --samples, --dir, --synchronous, --server, \
                 --server-pid, --connections, --finished and --rule"
            ),
        }
        Ok(())
    }

    /// Whether the queue has a rule.
    pub(crate) fn has_rule(&self) -> bool {
        self.place.rule != Rule::None
    }

    /// Where one work is done: a file of its own, or the database of its name on the server.
    pub(crate) fn place(&self, program: &str, work: &str) -> Result<Place> {
        let at = if let Some(server) = self.redis() {
            let number = DATABASES.iter().position(|database| *database == work);
            format!("redis://{server}/{}", number.with_context(|| format!("no database for {work}"))?)
        } else if let Some(server) = &self.server {
            format!("{server}/{work}")
        } else {
            let path = self.dir.join(format!("{program}-{work}.db"));
            if path.exists() {
                bail!("{} exists already; give an empty --dir", path.display());
            }
            path.display().to_string()
        };
        Ok(Place { at, ..self.place.clone() })
    }

    /// Host and port, if the server is one of Redis.
    pub(crate) fn redis(&self) -> Option<&str> {
        self.server.as_deref()?.strip_prefix("redis://")
    }
}
