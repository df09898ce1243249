//! Runs the real command in temporary folders: every command, also the ways in which each must fail.

// A failed step is a failed test; saying so twice does not help.
#![allow(clippy::unwrap_used)]

mod archive;
mod calendars;
mod dead;
mod doctor;
mod documented;
mod enqueue;
mod explain;
mod filtered;
mod flows;
mod hostile;
mod jobs;
mod logs;
mod postgres;
mod queues;
mod records;
mod redis;
mod schedules;
mod secrets;
mod serve;
mod server;
mod shell;
mod stores;
mod trial;
mod usage;
mod wait;
