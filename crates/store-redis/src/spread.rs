//! Calls about all queues: several of them at once, and a limit shared out among them.
//!
//! Each queue may live on another server. Where a call can do part of its work, one that is away does not hold up the
//! others.

use std::time::Duration;

use futures_util::stream::{self, FuturesOrdered, StreamExt};
use tokio::time::timeout;

use crate::error::{Away, Fault};

/// How many queues are talked to at once.
pub(crate) const WIDTH: usize = 16;

/// How long one queue may take before the others go on without it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks for every item, several at once; the answers come in the order of the items. After a fault nothing more is begun,
/// and what is under way is heard: it may take effect, and then it would be wrong to say that nothing did.
///
/// The requests are made before the first is polled: the compiler cannot prove of a closure over borrowed items, kept
/// while others are awaited, that it may move between threads.
pub(crate) fn each<T, R, F, Fut>(items: Vec<T>, ask: F) -> impl Future<Output = Result<Vec<R>, Fault>>
where
    F: Fn(T) -> Fut,
    Fut: Future<Output = Result<R, Fault>>,
{
    let requests: Vec<Fut> = items.into_iter().map(ask).collect();
    async move {
        let (mut answers, mut fault) = (Vec::with_capacity(requests.len()), None::<Fault>);
        let mut requests = requests.into_iter();
        let mut asked: FuturesOrdered<Fut> = requests.by_ref().take(WIDTH).collect();
        while let Some(answer) = asked.next().await {
            match (answer, fault.take()) {
                (Ok(answer), before) => {
                    answers.push(answer);
                    fault = before;
                }
                (Err(error), Some(before)) => fault = Some(before.or_worse(error)),
                (Err(error), None) => fault = Some(error),
            }
            if fault.is_none() {
                asked.extend(requests.next());
            }
        }
        fault.map_or(Ok(answers), Err)
    }
}

/// Asks every queue, several at once, until so many were found. Those that fail are left out, unless nothing is found.
pub(crate) async fn gather<T, R, F, Fut>(queues: Vec<T>, limit: usize, ask: F) -> Result<Vec<R>, Fault>
where
    F: Fn(T) -> Fut,
    Fut: Future<Output = Result<Vec<R>, Fault>>,
{
    let (mut found, mut failed) = (Vec::new(), None);
    let mut asked = stream::iter(queues).map(|queue| patient(ask(queue))).buffered(WIDTH);
    while found.len() < limit
        && let Some(answer) = asked.next().await
    {
        match answer {
            Ok(more) => found.extend(more),
            Err(fault) => failed = failed.or(Some(fault)),
        }
    }
    found.truncate(limit);
    match failed {
        Some(fault) if found.is_empty() => Err(fault),
        _ => Ok(found),
    }
}

/// Waits for one queue only so long.
async fn patient<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let late = || Err(Away::passing(format!("a queue took longer than {PATIENCE:?}")).into());
    timeout(PATIENCE, work).await.unwrap_or_else(|_| late())
}

/// What a limit was used up by, one number for each of `N` kinds of work that are limited apart.
#[derive(Debug)]
pub(crate) struct Rounds<const N: usize> {
    /// What was done.
    pub(crate) done: [u32; N],
    /// The first of those that failed.
    pub(crate) fault: Option<Fault>,
}

impl<const N: usize> Rounds<N> {
    /// What was done, unless that is nothing and something failed.
    pub(crate) fn into_done(self) -> Result<[u32; N], Fault> {
        match self.fault {
            Some(fault) if self.done == [0; N] => Err(fault),
            Some(fault) => {
                tracing::debug!(?fault, "a queue was left out");
                Ok(self.done)
            }
            None => Ok(self.done),
        }
    }
}

/// Works on all queues until there is nothing left to do or `limit` of each kind of work are done. In each round every
/// queue that may have more gets the same share, at most `step`; one that does less than its share has no more.
pub(crate) async fn rounds<const N: usize, T, F, Fut>(
    queues: Vec<T>,
    limit: u32,
    step: u32,
    work: F,
) -> Rounds<N>
where
    F: Fn(T, [u32; N]) -> Fut,
    Fut: Future<Output = Result<[u32; N], Fault>>,
    T: Clone,
{
    let mut rounds = Rounds { done: [0; N], fault: None };
    let mut active = queues;
    while !active.is_empty() && rounds.done.iter().any(|done| *done < limit) {
        let left = rounds.done.map(|done| limit - done);
        let shares = share_out(&active, left, step);
        let begin = |(queue, shares): (T, [u32; N])| {
            let work = patient(work(queue.clone(), shares));
            async move { (queue, shares, work.await) }
        };
        let worked: Vec<_> = stream::iter(shares).map(begin).buffered(WIDTH).collect().await;
        active = Vec::new();
        for (queue, shares, result) in worked {
            match result {
                Ok(done) => {
                    let has_more = (0..N).any(|kind| left[kind] > 0 && done[kind] >= shares[kind]);
                    rounds.done = std::array::from_fn(|kind| rounds.done[kind] + done[kind]);
                    if has_more {
                        active.push(queue);
                    }
                }
                Err(fault) => rounds.fault = Some(rounds.fault.take().unwrap_or(fault)),
            }
        }
    }
    rounds
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

    use super::*;

    /// Queues that have so much to do; each call does what it may.
    async fn play(work: &[u32], limit: u32, step: u32) -> (u32, Vec<u32>, usize) {
        let (left, calls) = (RefCell::new(work.to_vec()), RefCell::new(0));
        let queues = (0..work.len()).collect();
        let rounds = rounds(queues, limit, step, async |queue: usize, [share]: [u32; 1]| {
            assert!(share <= step);
            *calls.borrow_mut() += 1;
            let done = share.min(left.borrow()[queue]);
            left.borrow_mut()[queue] -= done;
            Ok([done])
        })
        .await;
        let [done] = rounds.into_done().expect("no queue fails");
        (done, left.into_inner(), calls.into_inner())
    }

    #[tokio::test]
    async fn after_a_fault_nothing_is_begun_and_what_is_under_way_is_heard() {
        let (begun, ended) = (RefCell::new(0), RefCell::new(0));
        let asked = each((0..3 * WIDTH).collect(), |place| {
            let (begun, ended) = (&begun, &ended);
            async move {
                *begun.borrow_mut() += 1;
                if place == 0 {
                    return Err(Fault::from(Away::passing("gone")));
                }
                tokio::task::yield_now().await;
                *ended.borrow_mut() += 1;
                if place == 1 { Err(Fault::Lost("broke".to_owned())) } else { Ok(place) }
            }
        });
        assert!(matches!(asked.await, Err(Fault::Lost(_))), "what may have taken effect is told");
        assert_eq!((begun.into_inner(), ended.into_inner()), (WIDTH, WIDTH - 1));
        let all = each((0..3 * WIDTH).collect(), async |place| Ok(place)).await;
        assert_eq!(all.ok(), Some((0..3 * WIDTH).collect::<Vec<_>>()));
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
        let left = RefCell::new([3, 40]);
        let rounds = rounds(vec![()], 10, 5, async |(), shares: [u32; 2]| {
            let mut left = left.borrow_mut();
            let done = [shares[0].min(left[0]), shares[1].min(left[1])];
            *left = [left[0] - done[0], left[1] - done[1]];
            Ok(done)
        });
        assert_eq!(rounds.await.into_done().ok(), Some([3, 10]));
    }

    #[tokio::test]
    async fn one_that_fails_does_not_hold_up_the_others() {
        let work = |queue: usize, [share]: [u32; 1]| async move {
            if queue == 0 { Err(Away::passing("gone").into()) } else { Ok([share]) }
        };
        let both = rounds(vec![0, 1], 10, 5, work).await;
        assert_eq!(both.into_done().ok(), Some([10]));
        assert!(rounds(vec![0], 10, 5, work).await.into_done().is_err());
    }
}
