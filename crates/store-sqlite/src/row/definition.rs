//! The definition of a queue: one text, with the newest rule that it uses where it uses any.

use serde::{Deserialize, Serialize};
use windlass_core::queue::{QueueConfig, check_rules};
use windlass_core::{Name, StoreError};

use crate::error::Fault;

/// What holds for a queue.
#[derive(Debug, Default)]
pub(crate) struct Definition {
    pub(crate) config: QueueConfig,
    /// The newest rule that it uses; a program that knows fewer stays out.
    pub(crate) rules: u32,
    /// Why the text does not read, if so.
    pub(crate) unreadable: Option<String>,
}

#[derive(Serialize)]
struct Stored<'a> {
    #[serde(flatten)]
    config: &'a QueueConfig,
    #[serde(skip_serializing_if = "is_none")]
    rules: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(rules: &u32) -> bool {
    *rules == 0
}

/// What is read of the text apart from all else, which a newer program may have written in another way.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Rules {
    rules: u64,
}

impl Definition {
    /// A definition as it is stored.
    pub(crate) fn text(config: &QueueConfig) -> Result<String, Fault> {
        json(&Stored { config, rules: config.rules() })
    }

    /// The definition of a queue that may have none. One that does not read harms nothing else, and removes nothing.
    pub(crate) fn read(stored: Option<&str>) -> Self {
        let Some(text) = stored else { return Self::default() };
        let (config, unreadable) = QueueConfig::read(text.as_bytes());
        Self { config, rules: rules(text), unreadable }
    }

    /// Fails when the queue uses a rule that this program does not know.
    pub(crate) fn check_rules(&self, queue: &Name) -> Result<(), StoreError> {
        check_rules(queue, self.rules)
    }
}

fn json(stored: &Stored<'_>) -> Result<String, Fault> {
    serde_json::to_string(stored).map_err(|error| Fault::Defect(error.to_string()))
}

/// Few definitions use a rule, so the text is searched before it is read once more.
fn rules(text: &str) -> u32 {
    let read = text.contains("\"rules\"").then(|| serde_json::from_str::<Rules>(text).ok()).flatten();
    u32::try_from(read.unwrap_or_default().rules).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_reads_back_with_its_rule() {
        let config = QueueConfig::unreadable();
        let text = Definition::text(&config).unwrap();
        assert!(!text.contains("rules"), "{text}");
        let read = Definition::read(Some(&text));
        assert_eq!((read.config, read.rules, read.unreadable), (config.clone(), 0, None));
        let newer = json(&Stored { config: &config, rules: 7 }).unwrap();
        let read = Definition::read(Some(&newer));
        assert_eq!((read.config, read.rules, read.unreadable), (config, 7, None));
        assert_eq!(Definition::read(None).config, QueueConfig::default());
    }

    #[test]
    fn a_rule_is_read_where_the_rest_does_not_read() {
        for (text, rules) in [
            (r#"{"retention":7,"rules":3}"#, 3),
            (r#"{"rules":99999999999}"#, u32::MAX),
            ("{", 0),
            (r#"{"retention":7}"#, 0),
        ] {
            let read = Definition::read(Some(text));
            assert_eq!(read.rules, rules, "{text}");
        }
        assert!(Definition::read(Some("{")).unreadable.is_some());
    }
}
