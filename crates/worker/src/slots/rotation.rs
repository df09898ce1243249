//! Whose turn it is among queues that want a slot: a smooth weighted rotation, as pure arithmetic.
//!
//! Each turn gives every queue that wants one its weight in credit, and takes what all of them got from the queue that has
//! the most. So of weights 5 and 1 every six turns are five and one, spread evenly. A queue that wants no turn gets no
//! credit and loses none.

/// For how many rounds a queue may be ahead or behind. A short burst is evened out, a long one is forgotten.
const ROUNDS_MAX: i64 = 4;

/// The credit of each queue of a worker.
#[derive(Debug, Clone)]
pub(super) struct Rotation {
    weights: Vec<i64>,
    credits: Vec<i64>,
}

impl Rotation {
    pub(super) fn new(weights: impl IntoIterator<Item = u32>) -> Self {
        let weights: Vec<i64> = weights.into_iter().map(i64::from).collect();
        Self { credits: vec![0; weights.len()], weights }
    }

    /// How close a queue is to its next turn: the highest is next.
    pub(super) fn standing(&self, queue: usize) -> i64 {
        self.credits[queue] + self.weights[queue]
    }

    /// The queue whose turn it is, among those that want one. The turn is not spent.
    pub(super) fn first(&self, wants: impl Fn(usize) -> bool) -> Option<usize> {
        let wanting = (0..self.weights.len()).filter(|queue| wants(*queue));
        wanting.rev().max_by_key(|queue| self.standing(*queue))
    }

    /// The turn goes to this queue, among those that want one.
    pub(super) fn spend(&mut self, queue: usize, wants: impl Fn(usize) -> bool) {
        let most = ROUNDS_MAX * self.weights.iter().sum::<i64>();
        let mut round = 0;
        for other in (0..self.weights.len()).filter(|other| *other == queue || wants(*other)) {
            round += self.weights[other];
            self.credits[other] = (self.credits[other] + self.weights[other]).min(most);
        }
        self.credits[queue] = (self.credits[queue] - round).max(-most);
    }

    /// How a number of turns would go, given how many each queue wants at most: the part of each. No turn is spent.
    pub(super) fn split(&self, turns: usize, wanted: &[usize]) -> Vec<usize> {
        let (mut ahead, mut left) = (self.clone(), turns);
        let mut parts = vec![0; wanted.len()];
        while let Some(next) = ahead.first(|queue| parts[queue] < wanted[queue]).filter(|_| left > 0) {
            let wants = |queue: &usize| parts[*queue] < wanted[*queue];
            let wanting: Vec<usize> = (0..wanted.len()).filter(wants).collect();
            let weight = |queue: usize| usize::try_from(self.weights[queue]).unwrap_or(1).max(1);
            // Whole rounds leave the credits as they are.
            let whole = wanting.iter().map(|queue| (wanted[*queue] - parts[*queue]) / weight(*queue)).min();
            let round: usize = wanting.iter().map(|queue| weight(*queue)).sum();
            let rounds = whole.unwrap_or(0).min(left / round);
            if rounds > 0 {
                wanting.iter().for_each(|queue| parts[*queue] += rounds * weight(*queue));
                left -= rounds * round;
            } else {
                ahead.spend(next, |queue| wanting.contains(&queue));
                parts[next] += 1;
                left -= 1;
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(rotation: &mut Rotation, count: usize, wants: impl Fn(usize) -> bool) -> Vec<usize> {
        let turn = |_| {
            let queue = rotation.first(&wants).unwrap();
            rotation.spend(queue, &wants);
            queue
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn of_every_six_turns_five_and_one() {
        let mut rotation = Rotation::new([5, 1]);
        let turns = turns(&mut rotation, 60, |_| true);
        for six in turns.windows(6) {
            assert_eq!(six.iter().filter(|queue| **queue == 1).count(), 1, "{turns:?}");
        }
    }

    #[test]
    fn equal_weights_take_turns() {
        let mut rotation = Rotation::new([1, 1, 1]);
        assert_eq!(turns(&mut rotation, 7, |_| true), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn an_idle_queue_costs_nothing_and_loses_nothing() {
        let mut rotation = Rotation::new([5, 1, 1]);
        let before = turns(&mut rotation.clone(), 7, |_| true);
        assert_eq!(turns(&mut rotation, 1_000, |queue| queue == 0), [0; 1_000], "the others are idle");
        assert_eq!(turns(&mut rotation, 7, |_| true), before, "as if nothing had been");
    }

    #[test]
    fn what_a_queue_took_beyond_its_turn_is_evened_out() {
        let mut rotation = Rotation::new([1, 1]);
        (0..3).for_each(|_| rotation.spend(1, |_| true));
        assert_eq!(turns(&mut rotation, 5, |_| true), [0, 0, 0, 0, 1]);
        (0..1_000_000).for_each(|_| rotation.spend(1, |_| true));
        let turns = turns(&mut rotation, 20, |_| true);
        assert!(turns[10..].contains(&1), "a long burst is forgotten: {turns:?}");
    }

    #[test]
    fn slots_are_split_by_weight_and_none_is_left_over() {
        let rotation = Rotation::new([5, 1, 2]);
        assert_eq!(rotation.split(16, &[100, 100, 100]), [10, 2, 4]);
        assert_eq!(rotation.split(16, &[100, 0, 0]), [16, 0, 0], "the others want none");
        assert_eq!(rotation.split(16, &[3, 100, 100]), [3, 4, 9]);
        assert_eq!(rotation.split(16, &[1, 1, 1]), [1, 1, 1]);
        assert_eq!(rotation.split(0, &[1, 1, 1]), [0, 0, 0]);
        assert_eq!(rotation.split(1, &[9, 9, 9]), [1, 0, 0]);
    }

    #[test]
    fn any_split_gives_out_what_there_is_and_no_more_than_is_wanted() {
        for _ in 0..2_000 {
            let rotation = Rotation::new([fastrand::u32(1..=1_000), 1, fastrand::u32(1..5)]);
            let wanted: Vec<usize> = (0..3).map(|_| fastrand::usize(..200)).collect();
            let turns = fastrand::usize(..400);
            let parts = rotation.split(turns, &wanted);
            assert!(parts.iter().zip(&wanted).all(|(part, wanted)| part <= wanted));
            assert_eq!(parts.iter().sum::<usize>(), turns.min(wanted.iter().sum()));
        }
    }
}
