//! What keeps jobs of a queue from starting now, and what to do about it. A pure look at its record.

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::State;
use windlass_core::clock::Timestamp;
use windlass_core::queue::QueueRecord;
use windlass_worker::Backlog;

/// Something that binds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Bind {
    /// `paused`, `kinds_paused`, `keys_paused`, `concurrency`, `rate`, `capacity`, `no_worker` or `definition`.
    what: &'static str,
    /// The same for people.
    sentence: String,
    /// What to do about it.
    remedy: &'static str,
}

/// All that binds, the strongest first.
pub(super) fn of(queue: &QueueRecord, backlog: &Backlog, lacks_workers: bool, now: Timestamp) -> Vec<Bind> {
    let (config, counts) = (&queue.config, &queue.counts);
    let mut binds = Vec::new();
    let mut bind = |what, sentence: String, remedy| binds.push(Bind { what, sentence, remedy });
    if let Some(why) = &queue.unreadable {
        bind("definition", format!("its definition does not read: {why}"), "define it anew");
    }
    if let Some(pause) = config.pauses.queue.as_ref().filter(|pause| pause.holds(now)) {
        let until = pause.until.map(|until| format!(" until {until}")).unwrap_or_default();
        bind("paused", format!("it is paused by {:?}{until}: {:?}", pause.by, pause.why), "resume it");
    }
    let held = |pauses: &std::collections::BTreeMap<_, windlass_core::queue::Pause>| {
        pauses.values().filter(|pause| pause.holds(now)).count()
    };
    let (kinds, keys) = (held(&config.pauses.kinds), held(&config.pauses.keys));
    if kinds > 0 {
        bind("kinds_paused", format!("{kinds} of its kinds are paused"), "resume them");
    }
    if keys > 0 {
        bind("keys_paused", format!("{keys} of its keys are paused"), "resume them");
    }
    let waits = counts.of(State::Ready) > 0 || backlog.overdue > 0 || backlog.has_more_scheduled;
    if lacks_workers && waits {
        bind("no_worker", "no living worker serves it".to_owned(), "start a worker that serves it");
    }
    let running = counts.of(State::Running);
    if config.concurrency.is_some_and(|most| waits && running >= u64::from(most)) {
        let remedy = "wait until one has ended, or raise the concurrency";
        bind("concurrency", format!("{running} of its jobs run, as many as may"), remedy);
    }
    if let Some(permits) = queue.permits.filter(|permits| waits && permits.jobs == 0) {
        let more = permits.more_at.map(|at| format!(", more at {at}")).unwrap_or_default();
        bind("rate", format!("as many of its jobs have started as may{more}"), "wait, or raise the rate");
    }
    if let Some(most) = config.capacity.filter(|most| counts.waiting() >= *most) {
        bind(
            "capacity",
            format!("{} jobs wait, and it takes {most}", counts.waiting()),
            "wait, or raise the capacity",
        );
    }
    binds
}

#[cfg(test)]
mod tests {
    use windlass_core::Name;
    use windlass_core::queue::{Counts, Pause, Pauses, QueueConfig};

    use super::*;

    #[test]
    fn only_what_holds_jobs_back_now_is_told() {
        let mut counts = Counts::default();
        counts.set(State::Ready, 3);
        counts.set(State::Running, 2);
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let pause = Pause { by: "ada".into(), why: String::new(), until: Some(at(10)) };
        let config = QueueConfig {
            concurrency: Some(2),
            capacity: Some(4),
            pauses: Pauses { queue: Some(pause), ..Pauses::default() },
            ..QueueConfig::default()
        };
        let name = Name::new("q").unwrap();
        let queue = QueueRecord { name, config, counts, permits: None, unreadable: None };
        let told = |now, lacks| {
            let binds = of(&queue, &Backlog::default(), lacks, now);
            binds.iter().map(|bind| bind.what).collect::<Vec<_>>()
        };
        assert_eq!(told(at(5), false), ["paused", "concurrency"]);
        assert_eq!(told(at(11), true), ["no_worker", "concurrency"]);
    }
}
