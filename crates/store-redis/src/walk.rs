//! Walks over queues in which each counts for itself: one that is sick is left out and named, and holds up no other. The
//! walk fails only where no queue answers.
//!
//! Each queue may live on another server. One that failed lately is not asked at all, see [`Pauses`].

use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use tokio::time::timeout;
use windlass_core::Name;
use windlass_core::store::SickQueue;

use crate::Tools;
use crate::error::{Fault, Unreachable};
use crate::pauses::{Pauses, Work, sick};
use crate::session::Session;
use crate::spread::WIDTH;

/// How long one queue may take before the others go on without it.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is to be done in one queue.
pub(crate) trait OfQueue {
    /// The queue.
    fn queue(&self) -> &Name;
}

impl OfQueue for Name {
    fn queue(&self) -> &Name {
        self
    }
}

/// A walk over queues. Its caller asks with a [hasty](Session::hasty) session.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    pauses: &'a Pauses,
    /// Nothing for those who only look: they ask everybody, and decide nothing for others.
    work: Option<Work>,
    is_cluster: bool,
}

impl<'a> Walk<'a> {
    /// A walk that works on queues.
    pub(crate) fn of(work: Work, tools: &'a Tools, session: &Session) -> Self {
        Self { pauses: &tools.pauses, work: Some(work), is_cluster: session.is_cluster() }
    }

    /// A walk that looks into queues for a caller that only reads.
    pub(crate) fn looking(tools: &'a Tools, session: &Session) -> Self {
        Self { pauses: &tools.pauses, work: None, is_cluster: session.is_cluster() }
    }

    /// Asks one queue, unless it is left out, and waits for it only so long.
    pub(crate) async fn ask<R>(
        self,
        queue: Name,
        patience: Duration,
        work: impl Future<Output = Result<R, Fault>>,
    ) -> Result<R, SickQueue> {
        if let Some(sick) = self.work.and_then(|work| self.pauses.of(&queue, work)) {
            return Err(sick);
        }
        let began = Instant::now();
        let answer = timeout(patience, work).await;
        match (answer.unwrap_or(Err(Fault::Timeout(patience))), self.work) {
            (Ok(answer), work) => {
                work.into_iter().for_each(|work| self.pauses.answered_after(&queue, work, began.elapsed()));
                Ok(answer)
            }
            (Err(fault), Some(work)) => {
                Err(self.pauses.failed_after(&queue, work, fault, began.elapsed(), self.is_cluster))
            }
            (Err(fault), None) => {
                let sick = sick(&queue, fault);
                tracing::warn!(%queue, what = %sick.what, "a queue cannot be looked into; others can");
                Err(sick)
            }
        }
    }

    /// Asks every queue, several at once. The answers come in the order of the queues.
    ///
    /// The requests are made before the first is polled, as in [`spread::each`](crate::spread::each).
    pub(crate) fn each<T, R, F, Fut>(
        self,
        queues: Vec<T>,
        ask: F,
    ) -> impl Future<Output = Vec<Result<R, SickQueue>>>
    where
        T: OfQueue,
        F: Fn(T) -> Fut,
        Fut: Future<Output = Result<R, Fault>>,
    {
        let requests: Vec<_> = queues
            .into_iter()
            .map(|item| {
                let queue = item.queue().clone();
                self.ask(queue, 2 * PATIENCE, late_is_away(ask(item)))
            })
            .collect();
        stream::iter(requests).buffered(WIDTH).collect()
    }

    /// Asks every queue, several at once, until so many were found. Those that fail are left out, unless all do.
    pub(crate) async fn gather<R, F, Fut>(
        self,
        queues: Vec<Name>,
        limit: usize,
        ask: F,
    ) -> Result<Vec<R>, Fault>
    where
        F: Fn(Name) -> Fut,
        Fut: Future<Output = Result<Vec<R>, Fault>>,
    {
        let (mut found, mut failed, mut has_answered) = (Vec::new(), None, false);
        let requests: Vec<_> = queues
            .into_iter()
            .map(|queue| {
                let work = late_is_away(ask(queue.clone()));
                self.ask(queue, 2 * PATIENCE, work)
            })
            .collect();
        let mut asked = stream::iter(requests).buffered(WIDTH);
        while found.len() < limit
            && let Some(answer) = asked.next().await
        {
            match answer {
                Ok(more) => {
                    has_answered = true;
                    found.extend(more);
                }
                Err(sick) => failed = failed.or(Some(sick)),
            }
        }
        found.truncate(limit);
        match failed {
            Some(sick) if !has_answered => Err(Fault::Sick(sick)),
            _ => Ok(found),
        }
    }

    /// Works on all queues until there is nothing left to do or `limit` of each kind of work are done. In each round every
    /// queue that may have more gets the same share, at most `step`; one that does less than its share has no more.
    pub(crate) async fn rounds<const N: usize, T, F, Fut>(
        self,
        queues: Vec<T>,
        limit: u32,
        step: u32,
        work: F,
    ) -> Rounds<N>
    where
        F: Fn(T, [u32; N]) -> Fut,
        Fut: Future<Output = Result<[u32; N], Fault>>,
        T: OfQueue + Clone,
    {
        let mut rounds = Rounds { done: [0; N], sick: None, has_answered: false };
        let mut active = queues;
        while !active.is_empty() && rounds.done.iter().any(|done| *done < limit) {
            let left = rounds.done.map(|done| limit - done);
            let shares = share_out(&active, left, step);
            let begin = |(item, shares): (T, [u32; N])| {
                let work = late_is_away(work(item.clone(), shares));
                let work = self.ask(item.queue().clone(), 2 * PATIENCE, work);
                async move { (item, shares, work.await) }
            };
            let requests: Vec<_> = shares.into_iter().map(begin).collect();
            let worked: Vec<_> = stream::iter(requests).buffered(WIDTH).collect().await;
            active = Vec::new();
            for (item, shares, result) in worked {
                match result {
                    Ok(done) => {
                        let has_more = (0..N).any(|kind| left[kind] > 0 && done[kind] >= shares[kind]);
                        rounds.done = std::array::from_fn(|kind| rounds.done[kind] + done[kind]);
                        rounds.has_answered = true;
                        if has_more {
                            active.push(item);
                        }
                    }
                    Err(sick) => rounds.sick = Some(rounds.sick.take().unwrap_or(sick)),
                }
            }
        }
        rounds
    }
}

/// Work that a walk may give up on: what it did is done, and to do the rest later is right.
async fn late_is_away<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let late = || Err(Unreachable::passing(format!("a queue took longer than {PATIENCE:?}")).into());
    timeout(PATIENCE, work).await.unwrap_or_else(|_| late())
}

/// What was found. Where all queues failed that were asked, and there are others, nothing was.
pub(crate) fn or_none<R>(found: Result<Vec<R>, Fault>, has_others: bool) -> Result<Vec<R>, Fault> {
    match found {
        Err(Fault::Sick(_)) if has_others => Ok(Vec::new()),
        found => found,
    }
}

/// What a limit was used up by, one number for each of `N` kinds of work that are limited apart.
#[derive(Debug)]
pub(crate) struct Rounds<const N: usize> {
    /// What was done.
    pub(crate) done: [u32; N],
    /// The first of those that failed.
    sick: Option<SickQueue>,
    has_answered: bool,
}

impl<const N: usize> Rounds<N> {
    /// What was done, unless all queues failed and there are no others.
    pub(crate) fn into_done(self, has_others: bool) -> Result<[u32; N], Fault> {
        match self.sick {
            Some(sick) if !self.has_answered && !has_others => Err(Fault::Sick(sick)),
            _ => Ok(self.done),
        }
    }
}

/// Equal shares of what is left; where there is less than one for each, the first ones get it.
fn share_out<const N: usize, T: Clone>(queues: &[T], left: [u32; N], step: u32) -> Vec<(T, [u32; N])> {
    let count = u32::try_from(queues.len()).unwrap_or(u32::MAX);
    let share = |place: u32, left: u32| {
        let rest = u32::from(place < left % count);
        (left / count + rest).min(step)
    };
    (0..).zip(queues).map(|(place, queue)| (queue.clone(), left.map(|left| share(place, left)))).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use windlass_core::StoreErrorKind;

    use super::*;
    use crate::error::said;

    fn name(place: usize) -> Name {
        Name::new(place.to_string()).unwrap()
    }

    fn place(queue: &Name) -> usize {
        queue.as_str().parse().unwrap()
    }

    fn walk(pauses: &Pauses) -> Walk<'_> {
        Walk { pauses, work: Some(Work::Promote), is_cluster: false }
    }

    /// Queues that have so much to do; each call does what it may.
    async fn play(work: &[u32], limit: u32, step: u32) -> (u32, Vec<u32>, usize) {
        let (left, calls, pauses) = (RefCell::new(work.to_vec()), RefCell::new(0), Pauses::default());
        let queues = (0..work.len()).map(name).collect();
        let rounds = walk(&pauses).rounds(queues, limit, step, async |queue: Name, [share]: [u32; 1]| {
            assert!(share <= step);
            *calls.borrow_mut() += 1;
            let done = share.min(left.borrow()[place(&queue)]);
            left.borrow_mut()[place(&queue)] -= done;
            Ok([done])
        });
        let [done] = rounds.await.into_done(false).expect("no queue fails");
        (done, left.into_inner(), calls.into_inner())
    }

    #[tokio::test]
    async fn everything_is_done_within_the_limit() {
        assert_eq!(play(&[5, 0, 700], 1_000, 250).await, (705, vec![0, 0, 0], 5));
        assert_eq!(play(&[], 1_000, 250).await, (0, vec![], 0));
        assert_eq!(play(&[5, 5], 0, 250).await.0, 0);
    }

    #[tokio::test]
    async fn the_limit_is_never_passed_and_is_used_up() {
        for limit in [1, 2, 3, 7, 10] {
            let (done, _, _) = play(&[4, 4, 4], limit, 2).await;
            assert_eq!(done, limit);
        }
        let (done, left, _) = play(&[0, 0, 9], 2, 250).await;
        assert_eq!((done, left), (2, vec![0, 0, 7]), "what others do not need goes to those that do");
    }

    #[tokio::test]
    async fn kinds_of_work_are_limited_apart() {
        let (left, pauses) = (RefCell::new([3, 40]), Pauses::default());
        let rounds = walk(&pauses).rounds(vec![name(0)], 10, 5, async |_, shares: [u32; 2]| {
            let mut left = left.borrow_mut();
            let done = [shares[0].min(left[0]), shares[1].min(left[1])];
            *left = [left[0] - done[0], left[1] - done[1]];
            Ok(done)
        });
        assert_eq!(rounds.await.into_done(false).ok(), Some([3, 10]));
    }

    fn wrong() -> Fault {
        said("WRONGTYPE", "another kind of value").into()
    }

    #[tokio::test]
    async fn one_that_fails_is_left_out_and_the_walk_fails_only_with_all() {
        let (pauses, asked) = (Pauses::default(), RefCell::new(0));
        let work = async |queue: Name, [_]: [u32; 1]| {
            *asked.borrow_mut() += usize::from(place(&queue) == 0);
            if place(&queue) == 0 { Err(wrong()) } else { Ok([0]) }
        };
        for _ in 0..3 {
            let both = walk(&pauses).rounds(vec![name(0), name(1)], 10, 5, work).await;
            assert_eq!(both.into_done(false).ok(), Some([0]), "that there is nothing to do is no failure");
        }
        assert_eq!(*asked.borrow(), 1, "it is not asked again at once");
        let alone = walk(&pauses).rounds(vec![name(0)], 10, 5, work).await.into_done(false);
        let beside_others = walk(&pauses).rounds(vec![name(0)], 10, 5, work).await.into_done(true);
        assert_eq!(beside_others.ok(), Some([0]), "those that were not asked may be well");
        let Err(Fault::Sick(sick)) = alone else { panic!("all have failed") };
        assert_eq!((sick.queue, sick.kind), (name(0), StoreErrorKind::Unavailable), "it was not asked now");
    }

    #[tokio::test]
    async fn what_others_found_is_told_whoever_fails() {
        let pauses = Pauses::default();
        let ask = async |queue: Name| match place(&queue) {
            0 => Err(wrong()),
            1 => Ok(Vec::new()),
            place => Ok(vec![place; 2]),
        };
        let walk = walk(&pauses);
        assert_eq!(walk.gather((0..4).map(name).collect(), 3, ask).await.ok(), Some(vec![2, 2, 3]));
        assert_eq!(walk.gather(vec![name(0), name(1)], 3, ask).await.ok(), Some(Vec::new()));
        assert!(walk.gather(vec![name(0)], 3, ask).await.is_err());
        let each = walk.each(vec![name(1), name(0)], ask).await;
        assert!(each[0].is_ok() && each[1].is_err());
    }
}
