//! Maps and sets of ids that cost little per id: most of the bits of an id are random already.
//!
//! Each has a secret of its own, for ids can come from outside: whoever chooses them must not be able to choose where
//! they go.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

use windlass_core::JobId;

pub(crate) type IdMap<V> = HashMap<JobId, V, Secret>;
pub(crate) type IdSet = HashSet<JobId, Secret>;

/// What ids are mixed with.
#[derive(Debug, Clone)]
pub(crate) struct Secret(u64, u64);

impl Default for Secret {
    fn default() -> Self {
        // Out of what the system holds for random: a generator that starts from the time could be guessed.
        let keys = RandomState::new();
        Self(keys.hash_one(0_u8), keys.hash_one(1_u8) | 1)
    }
}

impl BuildHasher for Secret {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer { state: self.0, factor: self.1 }
    }
}

/// Mixes the parts of one id.
pub(crate) struct Mixer {
    state: u64,
    factor: u64,
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(padded));
        }
    }

    fn write_u64(&mut self, part: u64) {
        self.state = fold(self.state ^ part, self.factor);
    }

    fn write_usize(&mut self, length: usize) {
        self.state = self.state.wrapping_add(length as u64);
    }

    fn finish(&self) -> u64 {
        // Once more: the highest bits of the last part have reached few of the lowest ones, by some factors hardly any.
        fold(self.state, self.factor)
    }
}

/// Both halves of the product, so that low bits reach the high ones and high bits the low ones.
fn fold(value: u64, factor: u64) -> u64 {
    let product = u128::from(value) * u128::from(factor);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    /// Ids that differ in few bits only, at either end.
    fn ids() -> impl Iterator<Item = JobId> {
        (0..4_096_u128).flat_map(|n| [n, n << 116]).map(|n| JobId::from_bytes(n.to_be_bytes()))
    }

    #[test]
    fn ids_that_differ_little_are_spread() {
        // By this factor an eighth of them would share one place without the last step.
        let poor = Secret(7, 0x9E37_79B9_7F40_0001);
        for secret in iter::once(poor).chain((0..20).map(|_| Secret::default())) {
            // A table looks at the lowest bits for the place and at the highest for a first comparison.
            for shift in [0, 57] {
                let mut counts = [0_u32; 128];
                ids().for_each(|id| counts[(secret.hash_one(id) >> shift) as usize % 128] += 1);
                let most = counts.iter().max().copied().unwrap_or_default();
                assert!(most <= 64 * 4, "{most} of {} in one place of 128", 2 * 4_096);
            }
        }
    }

    #[test]
    fn secrets_differ() {
        let id = JobId::new();
        assert_ne!(Secret::default().hash_one(id), Secret::default().hash_one(id));
    }
}
