//! The engine of Windlass.
//!
//! A [`Client`] puts jobs into a store; a [`Worker`] takes them out, runs their handlers and records what came
//! of it. Neither knows which store it has. The walk of one job: [`Client::enqueue`] → store → fetcher (claims
//! under the worker's lease) → executor (decode, layers, timeout, run, catch panic, classify) → judge →
//! settler → store. Everything else here keeps that walk safe: the lease thread, the supervisor, the
//! maintenance loops and the order of shutdown.
//!
//! Programs use the `windlass` crate, which adds the stores to this.

mod attempt_log;
mod attempts;
mod backoff;
mod batching;
mod begin;
mod blocking;
mod capture;
mod client;
mod ctx;
mod dead;
mod doctor;
mod engine;
mod error;
mod executor;
mod extract;
mod fetcher;
mod flows;
mod handler;
mod health;
mod internal;
mod job;
mod job_error;
mod lag;
mod lanes;
mod lease;
mod maintenance;
#[cfg(feature = "metrics")]
mod metrics;
mod observe;
mod panicked;
mod polling;
mod reconcile;
mod registry;
mod rest;
mod retries;
mod schedules;
mod settler;
mod settling;
mod shutdown;
mod slots;
mod supervise;
mod trace;
mod upkeep;
mod watchdog;
mod worker;

pub use windlass_core::store::Enqueued;

pub use attempt_log::{LOG_BYTES, LOG_LINE_MAX, LOG_TTL, LogLevel, LogLine};
pub use backoff::Failed;
pub use batching::{Answers, Batch, BatchHandler, BatchItem, Batching, FromWorker};
#[cfg(feature = "capture")]
pub use capture::CaptureLayer;
pub use client::{
    AwaitedJob, Backlog, BlockedBy, ByKey, Cancellation, Cause, Client, Enqueue, EnqueueAll, EnqueueAs,
    Explanation, FlowSeen, Handle, JobEvent, JobEvents, KeyBacklog, LogReader, Moved, OutputError, Paused,
    Pausing, Put, QueueHandle, Records, Remembered, Tallies, TallyReport, Why, WorkerSeen, percent_of,
};
pub use ctx::Ctx;
pub use ctx::follow::CHECKPOINT_TTL;
pub use ctx::once::Once;
pub use dead::{
    DeadFilter, DeadGroup, DeadGroups, DeadIndex, DeadLetter, DeadLetters, DeadPage, DeadRule, Edited,
    Purged, Redriven, Replay, ReplaySummary,
};
pub use error::{ConfigError, Error, Result};
pub use extract::{FromCtx, FromRef, State};
pub use flows::{
    After, Edges, FlowDraft, FlowHandle, FlowNode, FlowPage, FlowPlace, FlowView, FlowsListed, Gathered,
    NodeView, Parent,
};
pub use handler::{BlockingHandler, Handler};
pub use health::{Blocked, Health, LeaseHealth, LoopHealth, Part, QueueHealth, UnreadableHealth};
pub use internal::Internal;
pub use job::{IntoJob, Job, With};
#[doc(hidden)]
pub use job_error::IntoJobError;
pub use job_error::{Classify, JobError, ResultExt, Verdict};
pub use maintenance::{
    FlowKeeper, FlowSummary, Maintenance, PromoteSummary, Promoter, PruneSummary, Pruner, ReapSummary,
    Reaper, RedriveSummary, Redriver, TickSummary, Ticker,
};
#[cfg(feature = "metrics")]
pub use metrics::{Metrics, SERIES_MAX, Work};
pub use registry::Attempt;
pub use schedules::{CalendarAnswer, CalendarHandle, CalendarPage, ScheduleAnswer, ScheduleDraft};
pub use schedules::{ScheduleHandle, SchedulePage, ScheduleSet, ScheduleView};
pub use shutdown::Running;
pub use upkeep::Upkeep;
pub use worker::{Drained, Wakeups, Worker};
