//! Background jobs that start in one file and grow to a fleet.
