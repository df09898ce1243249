//! A ratchet for words: phrases that a reader stumbles over, and names that were replaced, may only become fewer.
//!
//! `xtask/words.txt` has how many each folder may still have. More fail the check; fewer are only said, so that good prose
//! never stops a change: lower the number then. What the plain words are is said in `docs/glossary.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{shell, tidy};

/// Stand-ins for a technical subject: say which caller, connection, row or worker.
const PEOPLE: [&str; 5] = ["somebody", "whoever", "nobody", "anybody", "everybody"];

/// Names of types and functions that were replaced. They count in code only: some are ordinary words.
const RETIRED: [&str; 36] = [
    "Aside",
    "Asides",
    "Away",
    "Companion",
    "Crew",
    "Doors",
    "Errand",
    "Floor",
    "Half",
    "Landing",
    "Lot",
    "Offering",
    "Outbox",
    "Posted",
    "Roads",
    "Said",
    "Seat",
    "Seats",
    "Sitting",
    "Talk",
    "Vigil",
    "Wanted",
    "Whereabouts",
    "despair",
    "doom",
    "heeding",
    "insist",
    "insistent",
    "keep_vigil",
    "MAKE_DOOM",
    "probation",
    "roads",
    "timekeeper",
    "unfit",
    "vigil",
    "whereabouts",
];

/// The allowed numbers.
const ALLOWED: &str = "xtask/words.txt";

/// Counts words in every folder and compares with what is allowed.
pub(crate) fn run() -> Result<()> {
    eprintln!("\n=== words");
    let allowed = fs::read_to_string(shell::root().join(ALLOWED)).context("cannot read xtask/words.txt")?;
    let allowed = parse(&allowed)?;
    let counted = count()?;
    let none = Counts::new();
    let mut complaints = Vec::new();
    for folder in allowed.keys().chain(counted.keys()).collect::<BTreeSet<_>>() {
        let found = counted.get(folder).unwrap_or(&none);
        let limit = allowed.get(folder).copied().unwrap_or(0);
        complaints.extend(complaint(folder, found, limit));
        if let Some(hint) = hint(folder, found, limit) {
            eprintln!("=== words: {hint}");
        }
    }
    if complaints.is_empty() {
        eprintln!("=== words: ok, {} are left", counted.values().flat_map(Counts::values).sum::<usize>());
        return Ok(());
    }
    bail!("words:\n  {}", complaints.join("\n  "))
}

type Counts = BTreeMap<&'static str, usize>;

/// What to say of a folder that has more words than it may have.
fn complaint(folder: &str, found: &Counts, limit: usize) -> Option<String> {
    let total: usize = found.values().sum();
    let words = found.iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ");
    (total > limit).then(|| {
        format!(
            "{folder}: {total} words that should become fewer, at most {limit} are allowed ({words}): \
             docs/glossary.md has plain ones"
        )
    })
}

/// What to say of a folder whose number can be lowered.
fn hint(folder: &str, found: &Counts, limit: usize) -> Option<String> {
    let total: usize = found.values().sum();
    (total < limit).then(|| format!("only {total} left: write `{folder} {total}` in {ALLOWED}"))
}

/// Lines of a folder and a number; those with a `#` are comments.
fn parse(text: &str) -> Result<BTreeMap<String, usize>> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let entry = |line: &str| -> Result<(String, usize)> {
        let (folder, number) = line.split_once(' ').context("a folder and a number are needed")?;
        Ok((folder.to_owned(), number.trim().parse()?))
    };
    lines.map(|line| entry(line).with_context(|| format!("{ALLOWED}: {line:?}"))).collect()
}

/// The words of each folder that has any.
fn count() -> Result<BTreeMap<String, Counts>> {
    let mut counted: BTreeMap<String, Counts> = BTreeMap::new();
    for (folder, file) in files()? {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let is_code = file.extension().is_some_and(|extension| extension == "rs");
        for (word, count) in count_in(&text, is_code) {
            *counted.entry(folder.clone()).or_default().entry(word).or_default() += count;
        }
    }
    Ok(counted)
}

/// Every file that is read, with its folder: a crate, or what lies at the top. The lists of this file do not count.
fn files() -> Result<Vec<(String, PathBuf)>> {
    let root = shell::root();
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "benches", "e2e", "examples", "docs"] {
        tidy::collect(&root.join(folder), &["rs", "sql", "lua", "md"], &mut files)?;
    }
    files.extend(
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name)),
    );
    let own = Path::new("xtask/src/words.rs");
    let placed = files.into_iter().filter_map(|file| {
        let path = file.strip_prefix(root).ok().filter(|path| *path != own)?;
        let mut parts = path.iter().map(|part| part.to_string_lossy());
        let folder = match (parts.next()?, parts.next()) {
            (first, Some(second)) if first == "crates" => format!("{first}/{second}"),
            (first, Some(_)) => first.into_owned(),
            (_, None) => "docs".to_owned(),
        };
        Some((folder, file.clone()))
    });
    Ok(placed.collect())
}

/// How often each word is in a text.
fn count_in(text: &str, is_code: bool) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let lower = line.to_lowercase();
        let words: Vec<&str> = words(&lower).collect();
        for word in PEOPLE {
            add(&mut counts, word, words.iter().filter(|found| **found == word).count());
        }
        add(&mut counts, "is no", negations(&words));
        let code = if is_code { line.split("//").next().unwrap_or_default() } else { "" };
        for name in RETIRED {
            add(&mut counts, name, names(code).filter(|found| *found == name).count());
        }
    }
    counts
}

fn add(counts: &mut Counts, word: &'static str, count: usize) {
    if count > 0 {
        *counts.entry(word).or_default() += count;
    }
}

/// Letters only, so that the parts of a name count one by one.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty())
}

fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|name| !name.is_empty())
}

/// "is no job id" should be "is not a job id". "there is no" and "is no longer" are plain.
fn negations(words: &[&str]) -> usize {
    let is_odd = |place: usize| {
        let before = place.checked_sub(1).map_or("", |before| words[before]);
        let after = words.get(place + 2).copied().unwrap_or_default();
        words[place] == "is"
            && words.get(place + 1) == Some(&"no")
            && before != "there"
            && !matches!(after, "longer" | "more")
    };
    (0..words.len()).filter(|&place| is_odd(place)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_where_they_should_not_be() {
        let text = "// Nobody knows; `12` is no job id, there is no other, it is no longer.\nlet seat = Seat::new(); // Seat";
        let counts = count_in(text, true);
        assert_eq!(counts, Counts::from([("nobody", 1), ("is no", 1), ("Seat", 1)]));
        assert_eq!(count_in("Seat nobody_waits", false), Counts::from([("nobody", 1)]));
    }

    #[test]
    fn more_are_refused_and_fewer_are_said() {
        let found = Counts::from([("nobody", 2), ("somebody", 1)]);
        assert!(complaint("crates/core", &found, 2).is_some_and(|text| text.contains("at most 2")));
        assert!(hint("crates/core", &found, 4).is_some_and(|text| text.contains("`crates/core 3`")));
        assert_eq!((complaint("crates/core", &found, 3), hint("crates/core", &found, 3)), (None, None));
        assert_eq!((complaint("crates/core", &found, 4), hint("crates/core", &found, 2)), (None, None));
    }

    #[test]
    fn allowed_numbers_are_read() {
        let allowed = parse("# words\n\ncrates/core 3\ndocs 0\n").unwrap();
        assert_eq!(allowed, BTreeMap::from([("crates/core".into(), 3), ("docs".into(), 0)]));
        assert!(parse("crates/core many").is_err());
    }
}
