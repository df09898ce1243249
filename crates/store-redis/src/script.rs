//! Scripts, joined from shared parts and the verb's own file when the crate is compiled.
//!
//! A script is run by its digest; a server that does not know it (it was restarted, or flushed its scripts) gets the
//! text once, and knows it from then on. See [`Session::run`](crate::session::Session::run).

use std::sync::OnceLock;

/// A script as the server gets it.
#[derive(Debug)]
pub(crate) struct Script {
    /// Part and verb, as `jobs/claim`.
    pub(crate) name: &'static str,
    /// The whole text.
    pub(crate) text: &'static str,
    digest: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text, digest: OnceLock::new() }
    }

    /// What the server calls it: the SHA-1 of its text.
    pub(crate) fn digest(&self) -> &str {
        self.digest.get_or_init(|| sha1_smol::Sha1::from(self.text).digest().to_string())
    }
}

/// A [`Script`] out of `scripts/<name>.lua`, after the shared parts that it needs, in this order:
///
/// ```ignore
/// static CLAIM: Script = script!("jobs/claim", "clock", "promote");
/// ```
macro_rules! script {
    ($name:literal $(, $shared:literal)* $(,)?) => {
        $crate::script::Script::new(
            $name,
            concat!(
                $(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/shared/", $shared, ".lua")), "\n",)*
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/", $name, ".lua")),
            ),
        )
    };
}
pub(crate) use script;
