//! The model test: random operations on the reference and on the store under test.

use std::ops::Range;

use crate::Harness;

/// Plays nothing yet.
pub async fn check(_harness: &impl Harness, _seeds: Range<u64>, _steps: usize) {}
