//! A strict reader of the text format of Prometheus: what it reads, every collector reads.

use std::collections::{BTreeMap, BTreeSet};

/// A scrape, read.
pub(crate) struct Exposition {
    /// What each metric is, by name.
    pub(crate) kinds: BTreeMap<String, String>,
    pub(crate) samples: Vec<Sample>,
}

/// One value.
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Exposition {
    /// Reads a scrape.
    ///
    /// # Panics
    /// At the first line that is not as it must be.
    pub(crate) fn read(text: &str) -> Self {
        assert!(text.is_empty() || text.ends_with('\n'), "the last line ends");
        let (mut kinds, mut samples) = (BTreeMap::new(), Vec::<Sample>::new());
        let (mut described, mut current, mut seen) = (None::<String>, None::<String>, BTreeSet::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
                assert!(is_name(name) && help.len() > 5, "{line}");
                described = Some(name.to_owned());
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("no type: {line}"));
                assert_eq!(described.take().as_deref(), Some(name), "help and type stand together: {line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "only counters end so: {line}");
                assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
                current = Some(name.to_owned());
            } else {
                let sample = sample(line);
                let family = current.as_deref().unwrap_or_else(|| panic!("before any type: {line}"));
                let suffix = sample.name.strip_prefix(family).unwrap_or_else(|| panic!("elsewhere: {line}"));
                let suffixes: &[&str] =
                    if kinds[family] == "histogram" { &["_sum", "_count", "_bucket"] } else { &[""] };
                assert!(suffixes.contains(&suffix), "{line}");
                assert!(seen.insert((sample.name.clone(), sample.labels.clone())), "twice: {line}");
                samples.push(sample);
            }
        }
        let read = Self { kinds, samples };
        read.check_histograms();
        read
    }

    /// Buckets grow, and the last one holds all.
    fn check_histograms(&self) {
        let mut buckets = BTreeMap::<_, Vec<(f64, f64)>>::new();
        for sample in self.samples.iter().filter(|sample| sample.name.ends_with("_bucket")) {
            let mut labels = sample.labels.clone();
            let bound = labels.remove("le").unwrap_or_else(|| panic!("{} has no bound", sample.name));
            let bound = bound.parse().unwrap_or_else(|_| panic!("{bound:?} is not a bound"));
            let name = sample.name.trim_end_matches("_bucket").to_owned();
            buckets.entry((name, labels)).or_default().push((bound, sample.value));
        }
        for ((name, labels), buckets) in buckets {
            assert!(buckets.is_sorted_by(|one, other| one.0 < other.0 && one.1 <= other.1), "{name}");
            let last = buckets.last().copied();
            let count = self
                .samples
                .iter()
                .find(|sample| sample.name == format!("{name}_count") && sample.labels == labels);
            let count = count.unwrap_or_else(|| panic!("{name} has no count")).value;
            assert_eq!(last, Some((f64::INFINITY, count)), "{name}");
        }
    }

    /// The sum of all samples with this name and these labels, whatever else they have.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let has = |sample: &&Sample| {
            sample.name == name
                && labels.iter().all(|(key, value)| sample.labels.get(*key).is_some_and(|of| of == value))
        };
        self.samples.iter().filter(has).map(|sample| sample.value).sum::<f64>() as u64
    }
}

fn is_name(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

fn sample(line: &str) -> Sample {
    let split = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(split);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(mut set) = rest.strip_prefix('{') {
        while !set.starts_with('}') {
            let (key, after) = set.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
            assert!(is_name(key) && !key.contains(':'), "{line}");
            let (value, after) = quoted(after).unwrap_or_else(|| panic!("no end of a label: {line}"));
            assert!(labels.insert(key.to_owned(), value).is_none(), "a label twice: {line}");
            set = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &set[1..];
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("not a number: {line}"));
    Sample { name: name.to_owned(), labels, value }
}

/// A value up to its quotation mark, and what comes after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}
