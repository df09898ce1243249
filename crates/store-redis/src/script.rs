//! Scripts, put together from shared parts and the verb's own file; [`crate::scripts`] lists them.
//!
//! A script is run by its digest; a server that does not know it (it was restarted, or flushed its scripts) gets the
//! text once, and knows it from then on. See [`Session::run`](crate::session::Session::run). In a transaction it is sent as
//! a text.
//!
//! A name such as `RECORD.fence`, `STATE.ready` or `KEY.jobs` becomes what [`crate::format`] or [`crate::keys`] says when
//! the text is put together, so that it costs the server nothing. Comments and indentation stay here.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::format;
use crate::keys::QueueKeys;

/// A script as the server gets it.
#[derive(Debug)]
pub(crate) struct Script {
    /// Part and verb, as `jobs/claim`.
    pub(crate) name: &'static str,
    /// The texts that it is put together from.
    pub(crate) parts: &'static [&'static str],
    whole: OnceLock<Whole>,
}

#[derive(Debug)]
struct Whole {
    text: String,
    digest: String,
}

impl Script {
    pub(crate) const fn new(name: &'static str, parts: &'static [&'static str]) -> Self {
        Self { name, parts, whole: OnceLock::new() }
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &str {
        &self.whole().text
    }

    /// What the server calls it: the SHA-1 of its text.
    pub(crate) fn digest(&self) -> &str {
        &self.whole().digest
    }

    fn whole(&self) -> &Whole {
        self.whole.get_or_init(|| {
            let lines = self.parts.iter().flat_map(|part| part.lines()).map(str::trim);
            let mut text = String::new();
            for line in lines.filter(|line| !line.is_empty() && !line.starts_with("--")) {
                put_line(&mut text, line);
            }
            let digest = sha1_smol::Sha1::from(&text).digest().to_string();
            Whole { text, digest }
        })
    }
}

/// A yes or no as an argument.
pub(crate) fn flag(is_set: bool) -> Bytes {
    Bytes::from_static(if is_set { b"1" } else { b"" })
}

/// Adds a line, with names replaced by what they stand for.
fn put_line(text: &mut String, mut rest: &str) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    while let Some(from) = rest.find(|c: char| is_word(c)) {
        let (before, word) = rest.split_at(from);
        let (word, after) = word.split_at(word.find(|c| !is_word(c)).unwrap_or(word.len()));
        text.push_str(before);
        match meaning(word) {
            Some(meaning) => text.push_str(&meaning),
            None => text.push_str(word),
        }
        rest = after;
    }
    text.push_str(rest);
    text.push('\n');
}

/// What a name stands for, if it is one: a group in capitals and a word of it.
fn meaning(name: &str) -> Option<String> {
    let (group, word) = name.split_once('.')?;
    if group.is_empty() || !group.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') {
        return None;
    }
    let of_format =
        format::ALL.iter().find(|format| format.name == group).and_then(|format| format.place(word));
    let number = || format::NUMBERS.iter().find(|(number, _)| *number == name).map(|(_, number)| *number);
    let text = || format::TEXTS.iter().find(|(text, _)| *text == name).map(|(_, text)| (*text).to_owned());
    let key = || QueueKeys::place(group, word).map(|place| format!("KEYS[{place}]"));
    let meaning = of_format.or_else(number).map(|number| number.to_string()).or_else(text).or_else(key);
    // `places.ENDED` begins with a small letter, so whatever comes here is meant for the tables.
    Some(meaning.unwrap_or_else(|| panic!("a script names {name}, which no table has")))
}

#[cfg(test)]
mod tests;
