//! What can be done about a cause: mostly a command.

use windlass_core::JobRecord;
use windlass_core::outcome::Reason;

use super::why::{Paused, Why};

impl Why {
    pub(super) fn remedy(&self, job: &JobRecord) -> Option<String> {
        let JobRecord { id, queue, kind, .. } = job;
        Some(match self {
            Self::NotDue { .. } | Self::Retry { .. } => format!("wait, or let it start now: windlass jobs retry {id}"),
            Self::Overdue { .. } => format!("see to it that a worker serves queue {queue}; the store's clock decides what is due"),
            Self::Expired { .. } => format!("to run it all the same: windlass jobs retry {id} when it is dead"),
            Self::Paused { what: Paused::Queue, .. } => format!("windlass queues resume {queue}"),
            Self::Paused { what: Paused::Kind, name, .. } => format!("windlass queues resume {queue} --kind {name}"),
            Self::Paused { what: Paused::Key, name, .. } => format!("windlass queues resume {queue} --key {name}"),
            Self::KeyConcurrency { .. } => format!("look at those that run, or: windlass queues set {queue} --per-key-concurrency N"),
            Self::KeyRate { .. } => format!("wait, or: windlass queues set {queue} --per-key-rate N/TIME"),
            Self::QueueConcurrency { .. } => {
                format!("windlass jobs list --queue {queue} --state running, or: windlass queues set {queue} --concurrency N")
            }
            Self::QueueRate { .. } => format!("wait, or: windlass queues set {queue} --rate N/TIME"),
            Self::UnknownRules { .. } => "run workers of a newer version".to_owned(),
            Self::Definition { .. } => format!("see that its server is there; a definition is replaced by: windlass queues define {queue} --reset"),
            Self::NoWorker { .. } => format!("start a worker that serves queue {queue}"),
            Self::NoHandler { .. } => format!("add a handler for kind {kind} to a worker of queue {queue}"),
            Self::StalledBefore { .. } => format!("windlass jobs show {id} names the workers that it died with"),
            Self::Behind { .. } => "wait, run more workers, or give more slots".to_owned(),
            Self::Ready { .. } => "if it stays: windlass workers, and the log of a worker that serves it".to_owned(),
            Self::Held { has_begun: true, .. } => format!("to end it: windlass jobs cancel {id}"),
            Self::Held { .. } => "wait: it may wait for a slot there; a smaller prefetch leaves it to others".to_owned(),
            Self::CancelRequested => "a handler that heeds no request is dropped after its grace; a blocking one ends with its process".to_owned(),
            Self::LeaseLost { workers, .. } if workers.is_empty() => "start any worker of this store: it takes lost jobs back".to_owned(),
            Self::LeaseLost { can_be_taken_back: true, .. } => "wait; if it stays, look at the log of a worker".to_owned(),
            Self::LeaseLost { .. } => "if it stays, find the open transaction of its handler and end it".to_owned(),
            Self::Dead { held_by: Some(holder), .. } | Self::Cancelled { held_by: Some(holder), .. } => {
                format!("job {holder} holds its unique key: a retry is refused until that has ended")
            }
            Self::Dead { reason: Some(Reason::Unreadable), .. } => {
                format!("enqueue it again from its source, then: windlass jobs delete {id}")
            }
            Self::Dead { attempts_max, reason, .. } => {
                let expiry = if *reason == Some(Reason::Expired) { ", and no expiry" } else { "" };
                format!("windlass jobs retry {id}: it begins anew, with {attempts_max} attempts{expiry}")
            }
            Self::Cancelled { .. } => {
                format!("to run it all the same: windlass jobs retry {id}, with fresh attempts")
            }
            Self::Unreadable { is_newer: true, .. } => "run workers of the version that wrote it, or a later one".to_owned(),
            Self::Unreadable { .. } => format!("enqueue it again from its source, then: windlass jobs delete {id}"),
            Self::Blocked { flow, by } => by.remedy(*id, flow.as_ref()),
            Self::Gathers { flow, .. } => format!("wait, or look at those that are under way: {}", flow.shown()),
            Self::Completed { .. } => return None,
        })
    }
}
