//! One sick part harms nothing else: a row that does not read, a row that is locked, a call whose answer was lost.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "isolation/bench.rs"]
mod bench;
#[path = "isolation/calls.rs"]
mod calls;
#[path = "isolation/counted.rs"]
mod counted;
#[path = "isolation/follow_ups.rs"]
mod follow_ups;
#[path = "isolation/gates.rs"]
mod gates;
#[path = "isolation/keys.rs"]
mod keys;
#[path = "isolation/kinds.rs"]
mod kinds;
#[path = "isolation/locked.rs"]
mod locked;
#[path = "isolation/meanwhile.rs"]
mod meanwhile;
#[path = "isolation/places.rs"]
mod places;
#[path = "isolation/records.rs"]
mod records;
#[path = "isolation/unique.rs"]
mod unique;
#[path = "isolation/unreadable.rs"]
mod unreadable;
#[path = "isolation/within.rs"]
mod within;
