//! The definition of a queue: one text, with the newest rule that it uses where it uses any, and what gates need to know.

use serde::{Deserialize, Serialize};
use windlass_core::queue::{QueueConfig, RULE_OF_KEYS, check_rules};
use windlass_core::{Name, StoreError};

use crate::error::Fault;

/// What holds for a queue.
#[derive(Debug, Default)]
pub(crate) struct Definition {
    pub(crate) config: QueueConfig,
    /// The newest rule that it uses; a program that knows fewer stays out.
    pub(crate) rules: u32,
    /// How many definitions there were before it, since the queue has keys.
    pub(crate) version: i64,
    /// Since which of them keys have the rate that they have.
    pub(crate) key_rate_since: i64,
    /// Why the text does not read, if so.
    pub(crate) unreadable: Option<String>,
}

#[derive(Serialize)]
struct Stored<'a> {
    #[serde(flatten)]
    config: &'a QueueConfig,
    #[serde(skip_serializing_if = "is_none")]
    rules: i64,
    #[serde(skip_serializing_if = "is_none")]
    version: i64,
    #[serde(skip_serializing_if = "is_none")]
    key_rate_since: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(number: &i64) -> bool {
    *number == 0
}

/// What is read of the text apart from all else, which a newer program may have written in another way.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Kept {
    rules: u64,
    version: i64,
    key_rate_since: i64,
}

impl Definition {
    /// The definition of the same queue that comes after this one. Where this one does not read, its gates may say more: that
    /// it has some, and by which definition the newest of them was closed.
    pub(crate) fn followed_by(&self, config: &QueueConfig, closed_by: Option<i64>) -> Self {
        let rules = config.rules_after(self.rules.max(closed_by.map_or(0, |_| RULE_OF_KEYS)));
        let rate = |config: &QueueConfig| config.keys.as_ref().and_then(|keys| keys.rate);
        let newest = self.version.max(closed_by.unwrap_or(0));
        let version = if rules >= RULE_OF_KEYS { newest.saturating_add(1) } else { 0 };
        let has_same_rate = rate(&self.config) == rate(config);
        let key_rate_since = if has_same_rate { self.key_rate_since } else { version };
        Self { config: config.clone(), rules, version, key_rate_since, unreadable: None }
    }

    /// As it is stored.
    pub(crate) fn text(&self) -> Result<String, Fault> {
        let Self { ref config, rules, version, key_rate_since, .. } = *self;
        json(&Stored { config, rules: rules.into(), version, key_rate_since })
    }

    /// The definition of a queue that may have none. One that does not read harms nothing else, and removes nothing.
    pub(crate) fn read(stored: Option<&str>) -> Self {
        let Some(text) = stored else { return Self::default() };
        let (config, unreadable) = QueueConfig::read(text.as_bytes());
        let Kept { rules, version, key_rate_since } = kept(text);
        let rules = u32::try_from(rules).unwrap_or(u32::MAX);
        Self { config, rules, version, key_rate_since, unreadable }
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
fn kept(text: &str) -> Kept {
    let read = text.contains("\"rules\"").then(|| serde_json::from_str(text).ok()).flatten();
    read.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_core::queue::{KeyRules, Rate};

    use super::*;

    #[test]
    fn a_definition_reads_back_with_its_rule() {
        let config = QueueConfig::unreadable();
        let text = Definition::default().followed_by(&config, None).text().unwrap();
        assert!(!text.contains("rules"), "{text}");
        let read = Definition::read(Some(&text));
        assert_eq!((read.config, read.rules, read.unreadable), (config.clone(), 0, None));
        let newer = json(&Stored { config: &config, rules: 7, version: 2, key_rate_since: 1 }).unwrap();
        let read = Definition::read(Some(&newer));
        assert_eq!((read.config, read.rules, read.unreadable), (config, 7, None));
        assert_eq!((read.version, read.key_rate_since), (2, 1));
        assert_eq!(Definition::read(None).config, QueueConfig::default());
    }

    #[test]
    fn a_definition_says_which_one_it_is_and_since_when_keys_have_their_rate() {
        let keys = |jobs: Option<u32>| {
            let rate = jobs.map(|jobs| Rate::new(jobs, Duration::from_secs(1)));
            QueueConfig { keys: Some(KeyRules { rate, ..KeyRules::default() }), ..QueueConfig::default() }
        };
        let mut definition = Definition::default().followed_by(&QueueConfig::default(), None);
        assert_eq!((definition.rules, definition.version), (0, 0), "it has no keys");
        let plain = QueueConfig::default();
        for (config, expected) in [
            (keys(None), (2, 1, 0)),
            (keys(Some(5)), (2, 2, 2)),
            (keys(Some(5)), (2, 3, 2)),
            (keys(Some(6)), (2, 4, 4)),
            (plain.clone(), (2, 5, 5)),
            (plain, (2, 6, 5)),
        ] {
            definition = Definition::read(Some(&definition.followed_by(&config, None).text().unwrap()));
            assert_eq!((definition.rules, definition.version, definition.key_rate_since), expected);
        }
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
