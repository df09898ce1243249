//! Counters of jobs by queue and state. Operations note moves; the transaction writes their sum once per
//! queue, just before it commits, so the counters and the jobs can never be seen apart.

use rusqlite::Connection;
use windlass_core::{Name, State};

use crate::error::Fault;

pub(crate) const COUNT: &str = include_str!("../queries/queues/count.sql");
pub(crate) const FORGET: &str = include_str!("../queries/queues/forget.sql");

/// What the operations of one transaction have moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deltas {
    /// A transaction touches few queues, so a list is searched faster than a map.
    queues: Vec<(Name, [i64; State::ALL.len()])>,
}

impl Deltas {
    /// Notes that jobs of a queue came into a state, or with a negative number, left it.
    pub(crate) fn add(&mut self, queue: &Name, state: State, jobs: i64) {
        let at = match self.queues.iter().position(|(name, _)| name == queue) {
            Some(at) => at,
            None => {
                self.queues.push((queue.clone(), [0; State::ALL.len()]));
                self.queues.len() - 1
            }
        };
        self.queues[at].1[usize::from(state.code())] += jobs;
    }

    /// Takes out the sums that are not all zero.
    pub(crate) fn take(&mut self) -> Vec<(Name, [i64; State::ALL.len()])> {
        let mut queues = std::mem::take(&mut self.queues);
        queues.retain(|(_, deltas)| deltas.iter().any(|delta| *delta != 0));
        queues
    }

    /// Writes the sums and starts over.
    pub(crate) fn write(&mut self, connection: &Connection) -> Result<(), Fault> {
        for (queue, deltas) in self.take() {
            let [blocked, scheduled, ready, running, completed, dead, cancelled] = deltas;
            connection.prepare_cached(COUNT)?.execute(rusqlite::params![
                queue.as_str(),
                blocked,
                scheduled,
                ready,
                running,
                completed,
                dead,
                cancelled
            ])?;
            // Only a queue that lost jobs can be empty now.
            if deltas.iter().sum::<i64>() < 0 {
                connection.prepare_cached(FORGET)?.execute([queue.as_str()])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate;

    fn ready(connection: &Connection) -> Option<i64> {
        let row =
            connection.query_row("SELECT ready FROM windlass_queues WHERE name = 'q'", [], |row| row.get(0));
        row.ok()
    }

    #[test]
    fn sums_are_written_once_and_an_empty_queue_is_forgotten() {
        let connection = Connection::open_in_memory().unwrap();
        migrate::run(&connection).unwrap();
        let queue = Name::new("q").unwrap();
        let mut deltas = Deltas::default();
        deltas.add(&queue, State::Ready, 3);
        deltas.add(&queue, State::Ready, -1);
        deltas.write(&connection).unwrap();
        deltas.write(&connection).unwrap();
        assert_eq!(ready(&connection), Some(2));
        deltas.add(&queue, State::Ready, -2);
        deltas.write(&connection).unwrap();
        assert_eq!(ready(&connection), None);
    }
}
