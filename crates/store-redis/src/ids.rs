//! Maps and sets of ids that cost little per id: most of the bits of an id are random already.
//!
//! Each has a secret of its own, for ids can come from outside: whoever chooses them must not be able to choose where
//! they go.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};

use windlass_core::JobId;

pub(crate) type IdMap<V> = HashMap<JobId, V, Secret>;
pub(crate) type IdSet = HashSet<JobId, Secret>;

/// What ids are mixed with.
#[derive(Debug, Clone)]
pub(crate) struct Secret(u64, u64);

impl Default for Secret {
    fn default() -> Self {
        Self(fastrand::u64(..), fastrand::u64(..) | 1)
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
        // Both halves of the product count, so that every bit of the part reaches every end of the state.
        let product = u128::from(self.state ^ part) * u128::from(self.factor);
        self.state = (product as u64) ^ (product >> 64) as u64;
    }

    fn write_usize(&mut self, length: usize) {
        self.state = self.state.wrapping_add(length as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids that differ in few bits only, at either end.
    fn ids() -> impl Iterator<Item = JobId> {
        (0..4_096_u128).flat_map(|n| [n, n << 116]).map(|n| JobId::from_bytes(n.to_be_bytes()))
    }

    #[test]
    fn ids_that_differ_little_are_spread() {
        for _ in 0..20 {
            let secret = Secret::default();
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
