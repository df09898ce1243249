//! Where the engine says what happens, for metrics. Without the feature `metrics` all of it is empty and costs nothing.
//!
//! A client carries an [`Observe`], and so do the workers of it. An attempt carries an [`Observed`], the handles of its queue
//! and kind, so that nothing is looked up when it ends.

#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;

#[cfg(not(feature = "metrics"))]
pub(crate) use off::{Ended, Observe, Observed};
#[cfg(feature = "metrics")]
pub(crate) use on::{Ended, Observe, Observed};

/// A call of the store that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Claim,
    Settle,
    Renew,
    Reap,
}

impl Call {
    /// The word in a label.
    #[cfg(feature = "metrics")]
    const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Settle => "settle",
            Self::Renew => "renew",
            Self::Reap => "reap",
        }
    }
}
