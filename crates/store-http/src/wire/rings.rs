//! The stream of rings: a client says whom rings would reach in its process, and the server sends a line of JSON for what
//! rings meanwhile, and an empty one now and then, so that both notice when the other has gone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::bell::{Fresh, Heard, Rings};

/// How long a stream is silent at most.
pub const QUIET: Duration = Duration::from_secs(10);

/// The request for a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hear {
    /// What is to be told.
    pub heard: Heard,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What rang.
    pub rings: Rings,
}

/// Work that no worker of the client has room for, to be offered to others: the body of `pass`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// Where.
    pub fresh: Fresh,
}
