//! A ledger outside the system under test: one file per worker process, one line per event.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use windlass::{Ctx, JobId};

/// Writes what handlers do. A line is one `write` call, so a killed process leaves whole lines.
#[derive(Debug, Clone)]
pub struct Witness {
    label: Arc<str>,
    file: Arc<Mutex<File>>,
}

impl Witness {
    /// Opens the ledger of one worker process in the witness folder.
    pub fn open(folder: &Path, label: &str) -> Self {
        let path = folder.join(format!("{label}-{}.witness", std::process::id()));
        let file =
            OpenOptions::new().create(true).append(true).open(path).expect("the witness folder exists");
        Self { label: label.into(), file: Arc::new(Mutex::new(file)) }
    }

    /// The label of the process.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The handler begins.
    pub fn start(&self, ctx: &Ctx) {
        self.line("start", ctx);
    }

    /// The handler is done; nothing has been settled yet.
    pub fn done(&self, ctx: &Ctx) {
        self.line("done", ctx);
    }

    /// Anything else.
    pub fn line(&self, event: &str, ctx: &Ctx) {
        let line = format!("{event} {} {}\n", ctx.id(), ctx.fence().number);
        self.file.lock().expect("no writer panics").write_all(line.as_bytes()).expect("the disk has room");
    }
}

/// What a witness folder says in the end.
#[derive(Debug, Default)]
pub struct Ledger {
    lines: HashMap<JobId, Vec<Line>>,
}

/// One event.
#[derive(Debug, Clone)]
pub struct Line {
    /// `start`, `done` or another word.
    pub event: String,
    /// The claim it belongs to.
    pub fence: u64,
    /// The file, named after the label and the process.
    pub witness: PathBuf,
}

impl Ledger {
    /// Reads every ledger of a folder. A line cut short by a kill is left out.
    pub fn read(folder: &Path) -> Self {
        let mut ledger = Self::default();
        for entry in fs::read_dir(folder).expect("the witness folder exists") {
            let path = entry.expect("a readable folder").path();
            let text = fs::read_to_string(&path).expect("a readable ledger");
            for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let words: Vec<_> = line.split_whitespace().collect();
                let [event, id, fence] = words[..] else { panic!("a line of three words, not {line:?}") };
                ledger.lines.entry(id.parse().expect("a job id")).or_default().push(Line {
                    event: event.to_owned(),
                    fence: fence.parse().expect("a fence number"),
                    witness: path.clone(),
                });
            }
        }
        ledger
    }

    /// The events of one job with this word.
    pub fn events<'a>(&'a self, id: JobId, event: &'a str) -> impl Iterator<Item = &'a Line> {
        self.lines.get(&id).into_iter().flatten().filter(move |line| line.event == event)
    }

    /// How many such events a job has.
    pub fn count(&self, id: JobId, event: &str) -> usize {
        self.events(id, event).count()
    }

    /// How many such events there are in all.
    pub fn total(&self, event: &str) -> usize {
        self.lines.values().flatten().filter(|line| line.event == event).count()
    }
}
