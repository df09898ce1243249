//! Taking work where a rate or keys may be against it. What its key keeps back is held aside in bounded steps: a burst
//! of one key would keep all other callers from the lock.

use std::time::Duration;

use tokio::time::Instant;

use super::keys::Keys;
use super::slab::Stage;
use super::{Effects, Machine, Pause, Start};
use crate::work::Work;

/// How many pieces of work a runner holds aside before it lets others have the lock. Where schedules are tried out,
/// so few that it happens there.
const HOLDS: usize = if cfg!(test) { 2 } else { 64 };

impl<W: Work> Machine<W> {
    /// The same, where a rate or keys may be against it.
    #[cold]
    pub(super) fn take_by_rules(
        &mut self,
        runner: u32,
        timeout: &mut Option<Duration>,
        effects: &mut Effects<W>,
    ) -> Result<Start<W>, Pause> {
        let held = self.held;
        while self.waiting > self.held {
            if self.held - held >= HOLDS {
                return Err(Pause::Again);
            }
            let mut now = None;
            if let Some(gauge) = &mut self.gauge {
                let instant = *now.insert(Instant::now());
                if let Err(later) = gauge.may_start(instant, self.running) {
                    self.rate_limits(effects);
                    return Err(if self.runners.has_rate_waiter() {
                        Pause::Park
                    } else {
                        Pause::Later(later)
                    });
                }
            }
            let index = self.take_next();
            if self.is_held_by_key(index) {
                continue;
            }
            if let (Some(gauge), Some(now)) = (&mut self.gauge, now) {
                gauge.note(now);
            }
            let entry = &mut self.lanes.slab[index];
            let (has_rare, start) = (entry.has_rare(), entry.start(index, runner));
            self.note_start(&start, has_rare, runner, timeout, effects);
            return Ok(start);
        }
        Err(Pause::Park)
    }

    /// Takes the next to start out of where it waits: the list of its priority, or what was held and may start.
    fn take_next(&mut self) -> u32 {
        if let Some(keys) = &mut self.keys
            && let Some(place) = keys.first_freed()
            && self.lanes.first().is_none_or(|first| place < first)
            && let Some(index) = keys.take_freed(place)
        {
            return index;
        }
        self.lanes.take_first().expect("what is not held aside is ready").0
    }

    /// Holds work aside whose key has no place left.
    fn is_held_by_key(&mut self, index: u32) -> bool {
        let Some(keys) = &mut self.keys else { return false };
        let Some(key) = self.lanes.slab.extra(index).and_then(|extra| extra.key.as_ref()) else {
            return false;
        };
        if keys.start(key) {
            return false;
        }
        keys.hold(key, self.lanes.place(index), index);
        self.lanes.slab[index].stage = Stage::Held;
        self.held += 1;
        true
    }

    /// Gives the place of a key, which work had or was about to have, to the next that is held for it. The work hangs
    /// on no token any more.
    #[cold]
    pub(super) fn untie(&mut self, index: u32, free: fn(&mut Keys, &str) -> Option<u32>) {
        let extra = self.lanes.slab.extra(index);
        self.tokens.remove(extra, index);
        let key = extra.and_then(|extra| extra.key.as_ref());
        if let (Some(keys), Some(key)) = (&mut self.keys, key)
            && let Some(next) = free(keys, key)
        {
            self.held -= 1;
            keys.free(self.lanes.place(next), next);
            self.lanes.slab[next].stage = Stage::Freed;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shuttle::check_random;

    use super::super::{Extra, Options, Order, Settings, Verdict};
    use super::*;
    use crate::machine::Id;
    use crate::work::{Accepts, Item};

    type Numbers = Item<u32, u32>;

    /// A machine whose keys have one place each, and its runners.
    struct Rig {
        machine: Machine<Numbers>,
        effects: Effects<Numbers>,
    }

    impl Rig {
        fn new(order: Order) -> Self {
            let machine = Machine::new(Settings {
                concurrency: 4,
                capacity: usize::MAX,
                timeout: None,
                per_key: Some(1),
                rate: None,
                watermarks: None,
                order,
                is_paused: false,
            });
            Self { machine, effects: Effects::new() }
        }

        fn add(&mut self, number: u32, key: &str) -> Id {
            let extra = Extra { key: Some(Arc::from(key)), ..Extra::default() };
            let options = Options { extra: Some(Arc::new(extra)), ..Options::default() };
            let (work, _ticket) = Numbers::pack(number);
            self.machine.insert(work, options, &mut self.effects)
        }

        /// A runner comes.
        fn add_runner(&mut self) -> u32 {
            self.machine.runners.enroll().0
        }

        fn take(&mut self, runner: u32) -> Result<Id, Pause> {
            let taken = self.machine.take(runner, &mut None, &mut self.effects);
            taken.map(|start| start.id)
        }

        fn finish(&mut self, id: Id) {
            self.machine.finish(id, Verdict::Completed, Ok(0), &mut self.effects);
        }
    }

    #[test]
    fn a_burst_of_one_key_is_held_aside_in_bounded_steps() {
        check_random(
            || {
                const BURST: usize = 1_000;
                let mut rig = Rig::new(Order::OldestFirst);
                let first = rig.add(0, "k");
                let (one, two) = (rig.add_runner(), {
                    rig.add(1, "k");
                    rig.add_runner()
                });
                assert!(matches!(rig.take(one), Ok(id) if id == first));
                for number in 2..BURST {
                    rig.add(u32::try_from(number).unwrap(), "k");
                }
                let other = rig.add(7, "other");
                let mut takes = 0;
                let started = loop {
                    let held = rig.machine.held;
                    let taken = rig.take(two);
                    takes += 1;
                    assert!(rig.machine.held - held <= HOLDS, "so many in one hold of the lock");
                    match taken {
                        Ok(id) => break id,
                        Err(Pause::Again) => {}
                        Err(_) => panic!("there is work for it"),
                    }
                };
                assert_eq!(started, other, "what no key keeps back is found behind them");
                assert_eq!((rig.machine.held, takes), (BURST - 1, (BURST - 1) / HOLDS + 1));
                rig.finish(other);
                assert!(matches!(rig.take(two), Err(Pause::Park)), "nothing is left that may start");
            },
            1,
        );
    }

    #[test]
    fn what_was_held_starts_in_its_place() {
        check_random(
            || {
                let mut rig = Rig::new(Order::NewestFirst);
                let running = rig.add(0, "a");
                let runner = rig.add_runner();
                assert!(matches!(rig.take(runner), Ok(id) if id == running));
                let held = rig.add(1, "a");
                let other = rig.add_runner();
                assert!(matches!(rig.take(other), Err(Pause::Park)), "its key has no place left");
                let [older, newer] = [("b", 2), ("c", 3)].map(|(key, number)| rig.add(number, key));
                rig.finish(running);
                assert_eq!(rig.machine.waiting(), [newer, older, held]);
                let order = [(); 3].map(|()| {
                    let Ok(id) = rig.take(runner) else { panic!("it is ready") };
                    rig.finish(id);
                    id
                });
                assert_eq!(
                    order,
                    [newer, older, held],
                    "what came later is not walked past, and is not passed"
                );
            },
            1,
        );
    }

    #[test]
    fn what_may_start_again_can_still_move_and_leave() {
        check_random(
            || {
                let mut rig = Rig::new(Order::OldestFirst);
                let running = rig.add(0, "a");
                let runner = rig.add_runner();
                assert!(matches!(rig.take(runner), Ok(id) if id == running));
                let [second, third, fourth] = [1, 2, 3].map(|number| rig.add(number, "a"));
                while matches!(rig.take(runner), Err(Pause::Again)) {}
                rig.finish(running);
                assert!(rig.machine.set_priority(second, -1), "it may start, and moves");
                assert_eq!(rig.machine.waiting(), [third, fourth, second]);
                assert!(rig.machine.cancel(second, crate::error::Why::Cancelled, &mut rig.effects));
                assert!(
                    matches!(rig.take(runner), Ok(id) if id == third),
                    "another of its key has the place"
                );
                rig.finish(third);
                assert!(matches!(rig.take(runner), Ok(id) if id == fourth));
            },
            1,
        );
    }
}
