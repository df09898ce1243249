//! House rules as checks: what a reader would otherwise have to remember.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell;

/// Files longer than this need to be split.
const LINES_MAX: usize = 450;

/// Marks of unfinished work, spelled apart so that this file does not contain them.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[", "ignore"),
];

/// Looks through every source file below the root.
pub(crate) fn run() -> Result<()> {
    eprintln!("\n=== house rules");
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "benches", "e2e", "examples"] {
        collect(&shell::root().join(folder), &["rs", "sql", "lua"], &mut files)?;
    }
    let mut complaints = Vec::new();
    for file in &files {
        examine(file, &mut complaints)?;
    }
    if complaints.is_empty() {
        eprintln!("=== house rules: ok, {} files", files.len());
        return Ok(());
    }
    bail!("house rules broken:\n  {}", complaints.join("\n  "))
}

/// The files below a folder that end so.
pub(crate) fn collect(folder: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        // What earlier programs left, in `fixtures`, is kept as it is.
        let is_ours = ["target", "node_modules", "fixtures"].iter().all(|other| name != *other);
        if path.is_dir() && is_ours {
            collect(&path, extensions, files)?;
        } else if path.extension().is_some_and(|extension| extensions.iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    Ok(())
}

fn examine(file: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let shown = file.strip_prefix(shell::root()).unwrap_or(file).display();
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    if text.lines().count() > LINES_MAX {
        complaints.push(format!("{shown}: {} lines, at most {LINES_MAX}: split it", text.lines().count()));
    }
    if is_rust && !text.starts_with("//!") {
        complaints.push(format!("{shown}: opens without a line that says what it is for"));
    }
    if file.file_name().is_some_and(|name| name == "mod.rs") {
        complaints.push(format!("{shown}: use foo.rs beside foo/ instead of mod.rs"));
    }
    for (number, line) in text.lines().enumerate() {
        for mark in UNFINISHED {
            if line.contains(mark) {
                complaints.push(format!("{shown}:{}: {mark} is left", number + 1));
            }
        }
    }
    Ok(())
}
