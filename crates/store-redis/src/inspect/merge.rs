//! Merging looks into many queues into one order.
//!
//! Of every queue it is known down to which number it was looked through, and what was found there. The newest of all
//! that were found comes next on the page, unless a queue that was not looked through far enough may have a newer one.

use std::collections::VecDeque;

use windlass_core::{JobId, Name};

use super::place::Place;

/// A job that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) seq: u64,
    pub(super) id: JobId,
    /// The bytes that it takes to show it.
    pub(super) size: u64,
}

/// A queue that has to be looked into, before a number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) lane: usize,
    pub(super) queue: Name,
    pub(super) before: u64,
}

/// What a look into a queue has found, the newest first.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) lane: usize,
    /// Where the next look begins; 0 at the end of the queue.
    pub(super) before: u64,
    pub(super) looked: u32,
    pub(super) found: Vec<Found>,
}

/// A page in the making.
#[derive(Debug)]
pub(super) struct Merge {
    lanes: Vec<Lane>,
    page: Vec<(Name, Found)>,
    limit: usize,
    bytes_left: u64,
    is_full: bool,
}

#[derive(Debug)]
struct Lane {
    queue: Name,
    before: u64,
    found: VecDeque<Found>,
}

impl Lane {
    /// The newest that the page may get from here: what was found first, else what a further look may find.
    fn next(&self) -> Option<(u64, &Name)> {
        let seq = match self.found.front() {
            Some(found) => found.seq,
            None => self.before.checked_sub(1)?,
        };
        Some((seq, &self.queue))
    }
}

impl Merge {
    pub(super) fn new(queues: Vec<Name>, start: &Place, limit: usize, bytes: u64) -> Self {
        let lane = |queue: Name| Lane { before: start.start_in(&queue), queue, found: VecDeque::new() };
        let lanes = queues.into_iter().map(lane).collect();
        Self { lanes, page: Vec::new(), limit, bytes_left: bytes, is_full: false }
    }

    /// Takes what is certain onto the page, and answers which queues have to be looked into for what follows. None when
    /// the page is full or there is nothing more.
    pub(super) fn wanted(&mut self) -> Vec<Wanted> {
        loop {
            if self.is_full {
                return Vec::new();
            }
            let newest = self.lanes.iter().filter(|lane| !lane.found.is_empty()).filter_map(Lane::next).max();
            let unknown = self.lanes.iter().enumerate().filter(|(_, lane)| {
                let next = lane.next();
                lane.found.is_empty() && next.is_some() && next >= newest
            });
            let wanted: Vec<_> = unknown
                .map(|(place, lane)| Wanted { lane: place, queue: lane.queue.clone(), before: lane.before })
                .collect();
            let Some((_, queue)) = newest.filter(|_| wanted.is_empty()) else {
                return wanted;
            };
            let queue = queue.clone();
            self.take(&queue);
        }
    }

    fn take(&mut self, queue: &Name) {
        let lane = self.lanes.iter_mut().find(|lane| lane.queue == *queue);
        let Some(job) = lane.and_then(|lane| lane.found.pop_front()) else { return };
        self.bytes_left = self.bytes_left.saturating_sub(job.size);
        self.page.push((queue.clone(), job));
        self.is_full = self.page.len() >= self.limit || self.bytes_left == 0;
    }

    pub(super) fn add(&mut self, look: Look) {
        let lane = &mut self.lanes[look.lane];
        lane.before = look.before.min(lane.before);
        lane.found.extend(look.found);
    }

    /// A queue cannot be looked into: the page is made of the others.
    pub(super) fn leave_out(&mut self, lane: usize) {
        self.lanes[lane].before = 0;
    }

    /// The page, and where the next one begins if there may be one.
    pub(super) fn finish(self) -> (Vec<(Name, Found)>, Option<Place>) {
        let next = self.lanes.iter().filter_map(Lane::next).max();
        // Whatever is newer than this is on the page or matches not.
        let next = next.map(|(seq, queue)| Place::up_to(seq, queue.clone()));
        let next = match self.page.last() {
            Some((queue, job)) if self.is_full => next.map(|_| Place::before(job.seq, queue.clone())),
            _ => next,
        };
        (self.page, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    /// Queues with jobs of these numbers.
    type Queues<'a> = [(&'a str, &'a [u64])];

    /// Reads one page, each look seeing at most `step` jobs, and all looks together at most `looks`.
    fn page(
        queues: &Queues<'_>,
        start: &Place,
        limit: usize,
        step: usize,
        looks: usize,
    ) -> (Vec<(u64, String)>, Option<Place>) {
        let names = queues.iter().map(|(queue, _)| name(queue)).collect();
        let mut merge = Merge::new(names, start, limit, u64::MAX);
        let mut left = looks;
        loop {
            let wanted = merge.wanted();
            if wanted.is_empty() || left == 0 {
                break;
            }
            for Wanted { lane, before, .. } in wanted {
                let mut seqs: Vec<_> = queues[lane].1.iter().copied().filter(|seq| *seq < before).collect();
                seqs.sort_unstable_by(|a, b| b.cmp(a));
                let is_end = seqs.len() <= step;
                seqs.truncate(step);
                left = left.saturating_sub(seqs.len());
                let before = if is_end { 0 } else { seqs[seqs.len() - 1] };
                let found = seqs.iter().map(|&seq| Found { seq, id: JobId::new(), size: 1 }).collect();
                merge.add(Look { lane, before, looked: 0, found });
            }
        }
        let (page, next) = merge.finish();
        (page.into_iter().map(|(queue, job)| (job.seq, queue.to_string())).collect(), next)
    }

    #[test]
    fn pages_of_any_size_make_up_the_whole() {
        let queues: &Queues<'_> =
            &[("a", &[1, 4, 5, 9, 12]), ("b", &[2, 4, 5, 6, 7, 8]), ("c", &[]), ("d", &[4, 30, 31, 32, 33])];
        let mut whole: Vec<_> = queues
            .iter()
            .flat_map(|(queue, seqs)| seqs.iter().map(|seq| (*seq, (*queue).to_owned())))
            .collect();
        whole.sort_unstable_by(|a, b| b.cmp(a));
        for limit in [1, 2, 3, 7, 15, 16, 17, 100] {
            for step in [1, 2, 5, 100] {
                for looks in [1, 3, 1_000] {
                    let (mut found, mut next) = (Vec::new(), Some(Place::NEWEST));
                    for _ in 0..100 {
                        let Some(start) = next.take() else { break };
                        let (page, after) = page(queues, &start, limit, step, looks);
                        assert!(page.len() <= limit);
                        found.extend(page);
                        next = after.map(|place| Place::parse(&place.cursor()).unwrap());
                    }
                    assert_eq!((&found, next), (&whole, None), "limit {limit}, step {step}, looks {looks}");
                }
            }
        }
    }

    #[test]
    fn a_page_ends_when_it_has_many_bytes() {
        let mut merge = Merge::new(vec![name("q")], &Place::NEWEST, 100, 5);
        let sizes = [3, 3, 1];
        let found =
            (0..3).map(|place| Found { seq: 9 - place, id: JobId::new(), size: sizes[place as usize] });
        merge.wanted();
        merge.add(Look { lane: 0, before: 0, looked: 3, found: found.collect() });
        assert!(merge.wanted().is_empty());
        let (page, next) = merge.finish();
        assert_eq!((page.len(), next), (2, Some(Place::before(8, name("q")))));
    }
}
