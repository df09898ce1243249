//! What is wrong with a schedule, and where.

use thiserror::Error;

/// Why a schedule cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScheduleInvalid {
    /// A cron field that does not read.
    #[error("cron text {text:?}, field {position} ({field}) is {given:?}: {why}")]
    CronField {
        /// The whole text.
        text: String,
        /// `second`, `minute`, `hour`, `day of month`, `month` or `day of week`.
        field: &'static str,
        /// Which field it is, from 1.
        position: usize,
        /// What stands there.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// A cron text as a whole.
    #[error("cron text {text:?}: {why}")]
    Cron {
        /// The text, or how it begins.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Any other setting.
    #[error("bad `{field}` of a schedule: {why}")]
    Field {
        /// The setting.
        field: &'static str,
        /// What is wrong with it, and what would be right.
        why: String,
    },
}

impl ScheduleInvalid {
    pub(super) fn field(field: &'static str, why: impl Into<String>) -> Self {
        Self::Field { field, why: why.into() }
    }
}
