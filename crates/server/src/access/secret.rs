//! Secrets: 256 random bits that are shown once, kept as SHA-256 and compared in constant time.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// How the text of a token begins, so that scanners for leaked secrets find it.
const PREFIX: &str = "wl";

/// A public part, by which it is found, and a secret one.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    pub(crate) id: String,
    secret: String,
}

impl Secret {
    /// A fresh one.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let (mut id, mut secret) = ([0_u8; 8], [0_u8; 32]);
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { id, secret: BASE64_URL_SAFE_NO_PAD.encode(secret) })
    }

    /// The text that is handed out.
    pub(crate) fn reveal(&self) -> String {
        format!("{PREFIX}_{}_{}", self.id, self.secret)
    }

    /// Reads what was handed out; nothing for any other text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.strip_prefix('_')?.split_once('_')?;
        let is_id = id.len() == 16 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_secret = secret.len() == 43
            && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        (is_id && is_secret).then(|| Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// What is kept of it.
    pub(crate) fn hash(&self) -> String {
        digest(&["secret", &self.secret])
    }

    /// Whether this was kept of it.
    pub(crate) fn has_hash(&self, hash: &str) -> bool {
        self.hash().as_bytes().ct_eq(hash.as_bytes()).into()
    }

    /// What a page of the same site sends with each write.
    pub(crate) fn csrf(&self) -> String {
        digest(&["csrf", &self.secret])
    }
}

/// The parts are not shown.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The SHA-256 of some texts, none of which can pass for a part of another.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_reads_back_and_only_itself_fits_its_hash() {
        let (one, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert_eq!(Secret::read(&one.reveal()).as_ref(), Some(&one));
        assert!(one.has_hash(&one.hash()) && !other.has_hash(&one.hash()) && !one.has_hash(""));
        assert!(!format!("{one:?}").contains(&one.secret), "it is not shown");
        assert_ne!(one.hash(), one.csrf());
    }

    #[test]
    fn other_texts_are_not_secrets() {
        let text = Secret::new().unwrap().reveal();
        let longer = format!("{text}a");
        for bad in
            ["", "wl", "wl__", "wl_0_0", &text[1..], &text[..text.len() - 1], &longer, &text.to_uppercase()]
        {
            assert_eq!(Secret::read(bad), None, "{bad:?}");
        }
    }
}
