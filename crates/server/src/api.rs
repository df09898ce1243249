//! Handlers and their wire types, one file for each noun. A handler says its method, path and answers in `#[utoipa::path]`,
//! has a line in the table of routes, calls the client, and asks `Caller::on` for the queue that it touches.

pub(crate) mod about;
pub(crate) mod audit;
pub(crate) mod enqueue;
pub(crate) mod jobs;
pub(crate) mod tokens;
