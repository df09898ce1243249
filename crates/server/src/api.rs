//! Handlers and their wire types, one file for each noun. A handler says its method, path and answers in `#[utoipa::path]`,
//! has a line in the table of routes, calls the client, and asks `Caller::on` for the queue that it touches.

pub(crate) mod about;
pub(crate) mod audit;
pub(crate) mod backlog;
pub(crate) mod dead;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod explain;
pub(crate) mod flows;
pub(crate) mod jobs;
pub(crate) mod queues;
pub(crate) mod records;
pub(crate) mod schedules;
pub(crate) mod seen;
pub(crate) mod session;
pub(crate) mod store;
pub(crate) mod tallies;
pub(crate) mod tokens;
pub(crate) mod workers;
