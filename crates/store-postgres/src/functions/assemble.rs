//! Puts the text of a function together: `{ready}` stands for the fragment of that name, `{jobs_due}` for the name of another
//! function, `{rules}` and other words for numbers of the core. What a fragment needs (columns, variables) has the same name wherever it stands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::queue::{
    GATES_LOOKED_MAX, LEVELS_LOOKED_MAX, PASSED_MAX, RULE_OF_KEYS, RULES, TURN_COST, WEIGHT_MAX,
};
use windlass_core::store::AMPLE;

use super::ALL;

/// A part of statements that stands in several functions, or that is read by itself.
struct Fragment {
    /// What stands for it.
    mark: &'static str,
    text: &'static str,
}

macro_rules! fragments {
    ($($name:literal),*) => {
        &[$(Fragment {
            mark: concat!("{", $name, "}"),
            text: include_str!(concat!("../../queries/shared/", $name, ".sql")),
        }),*]
    };
}

const FRAGMENTS: &[Fragment] = fragments![
    "behind",
    "completed",
    "expire",
    "kinds",
    "late",
    "level",
    "line",
    "lock",
    "looked",
    "loose",
    "next",
    "promote",
    "ready",
    "running",
    "take",
    "turn"
];

/// Numbers of the core that functions have to say again.
const NUMBERS: [(&str, u64); 8] = [
    ("{ample}", AMPLE),
    ("{rules}", RULES as u64),
    ("{rule_of_keys}", RULE_OF_KEYS as u64),
    ("{levels_looked_max}", LEVELS_LOOKED_MAX as u64),
    ("{gates_looked_max}", GATES_LOOKED_MAX as u64),
    ("{passed_max}", PASSED_MAX as u64),
    ("{turn_cost}", TURN_COST),
    ("{weight_max}", WEIGHT_MAX as u64),
];

/// The whole text. What is left open is where the function is and how it is planned. Each is put together once: the name of a
/// function has the digest of its text, so those that call it need that first.
pub(super) fn assemble(text: &'static str) -> Arc<str> {
    static KNOWN: Mutex<BTreeMap<&str, Arc<str>>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(whole) = known().get(text) {
        return Arc::clone(whole);
    }
    let whole = Arc::<str>::from(put_together(text));
    known().insert(text, Arc::clone(&whole));
    whole
}

fn put_together(text: &str) -> String {
    let mut text = text.to_owned();
    for Fragment { mark, text: fragment } in FRAGMENTS {
        while let Some(at) = text.find(mark) {
            let line = &text[text[..at].rfind('\n').map_or(0, |end| end + 1)..];
            let indent: String = line.chars().take_while(|char| *char == ' ').collect();
            text.replace_range(at..at + mark.len(), &body(fragment, &indent));
        }
    }
    for (mark, number) in NUMBERS {
        text = text.replace(mark, &number.to_string());
    }
    for function in ALL {
        let mark = format!("{{{}}}", function.name);
        if text.contains(&mark) {
            text = text.replace(&mark, &format!("{{schema}}.{}", function.full_name()));
        }
    }
    text
}

/// A fragment without the comment at its head, in the place of its mark.
fn body(fragment: &str, indent: &str) -> String {
    let lines = fragment.lines().skip_while(|line| line.starts_with("--"));
    lines.collect::<Vec<_>>().join(&format!("\n{indent}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_stands_where_its_mark_was() {
        let text = assemble("BEGIN\n    {promote}\n    INTO v_count;\n");
        assert!(text.starts_with("BEGIN\n    moved AS (\n        UPDATE waiting"), "{text}");
        assert!(text.ends_with("AS m\n    INTO v_count;\n"), "{text}");
    }

    #[test]
    fn a_function_that_calls_another_names_its_digest() {
        let claim = assemble(super::super::CLAIM.text);
        assert!(claim.contains(&format!("{{schema}}.{}(", super::super::CLAIM_DUE.full_name())), "{claim}");
    }

    #[test]
    fn every_fragment_says_what_it_is_and_is_used() {
        for Fragment { mark, text } in FRAGMENTS {
            assert!(text.starts_with("-- "), "{mark}");
            let uses = ALL.iter().filter(|function| function.text.contains(mark));
            assert!(uses.count() > 0, "{mark}");
        }
    }
}
