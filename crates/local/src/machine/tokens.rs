//! Which work hangs on which token, so that to cancel by one touches nothing else: where every request has a token of
//! its own, all of them together would else look at everything that waits, once each.

use std::collections::BTreeSet;

use super::Extra;
use crate::token::{Token, TokenKey};

/// Everything that waits or runs and hangs on a token. The entries keep their tokens alive, so no two have one key.
#[derive(Debug, Default)]
pub(super) struct Tokens(BTreeSet<(TokenKey, u32)>);

impl Tokens {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Work was taken in.
    #[cold]
    pub(super) fn add(&mut self, extra: Option<&Extra>, index: u32) {
        if let Some(token) = extra.and_then(|extra| extra.token.as_ref()) {
            self.0.insert((token.key(), index));
        }
    }

    /// Work has ended.
    pub(super) fn remove(&mut self, extra: Option<&Extra>, index: u32) {
        if let Some(token) = extra.and_then(|extra| extra.token.as_ref()) {
            self.0.remove(&(token.key(), index));
        }
    }

    /// Everything that hangs on this token.
    pub(super) fn of(&self, token: &Token) -> impl Iterator<Item = u32> {
        self.0.range((token.key(), 0)..=(token.key(), u32::MAX)).map(|(_, index)| *index)
    }
}
