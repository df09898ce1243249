//! Calls about several queues that are to be answered as one: several of them at once.

use futures_util::stream::{FuturesOrdered, StreamExt};

use crate::error::Fault;

/// How many queues are talked to at once.
pub(crate) const WIDTH: usize = 16;

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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::error::Unreachable;

    #[tokio::test]
    async fn after_a_fault_nothing_is_begun_and_what_is_under_way_is_heard() {
        let (begun, ended) = (RefCell::new(0), RefCell::new(0));
        let asked = each((0..3 * WIDTH).collect(), |place| {
            let (begun, ended) = (&begun, &ended);
            async move {
                *begun.borrow_mut() += 1;
                if place == 0 {
                    return Err(Fault::from(Unreachable::passing("gone")));
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
}
