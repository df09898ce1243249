//! The label sets of metrics. Names of queues and kinds have an alphabet in which no label can be forged.

use std::fmt::{self, Write};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use windlass_core::Name;

use super::capped::{Labels, other};

/// A name as the value of a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Named(pub(super) Name);

impl EncodeLabelValue for Named {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.write_str(self.0.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfKind {
    pub(super) queue: Named,
    pub(super) kind: Named,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfOutcome {
    pub(super) queue: Named,
    pub(super) kind: Named,
    pub(super) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfReason {
    pub(super) queue: Named,
    pub(super) kind: Named,
    pub(super) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfResult {
    pub(super) queue: Named,
    pub(super) kind: Named,
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfQueueCause {
    pub(super) queue: Named,
    pub(super) cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfCause {
    pub(super) cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfCall {
    pub(super) call: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfError {
    pub(super) call: &'static str,
    pub(super) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfMetric {
    pub(super) metric: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfQueue {
    pub(super) queue: Named,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfState {
    pub(super) queue: Named,
    pub(super) state: &'static str,
}

macro_rules! merged {
    ($($labels:ident { $($name:ident),* ; $($word:ident),* })*) => {
        $(impl Labels for $labels {
            fn merged(&self) -> Self {
                Self { $($name: Named(other()),)* $($word: self.$word,)* }
            }
        })*
    };
}

merged! {
    OfKind { queue, kind; }
    OfOutcome { queue, kind; outcome }
    OfReason { queue, kind; reason }
    OfResult { queue, kind; result }
    OfQueueCause { queue; cause }
}
