//! Threads that only look. Each read is one short transaction on a connection of its own, finished before its
//! answer is sent, so that no reader keeps the log from starting over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use windlass_core::store::StoreResult;

use crate::error::{Fault, closed};

/// Reads that may wait; beyond it, callers wait for a place.
const WAITING_MAX: usize = 256;

type Look = Box<dyn FnOnce(&Connection) + Send>;

/// The handle of the reader threads. Dropping it ends them.
pub(crate) struct Readers {
    sender: Option<mpsc::Sender<Look>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(connections: Vec<Connection>) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let spawn = |connection: Connection| {
            let receiver = Arc::clone(&receiver);
            let name = "windlass-sqlite-reader".to_owned();
            thread::Builder::new().name(name).spawn(move || run(&connection, &receiver))
        };
        let threads = connections.into_iter().map(spawn).collect::<Result<_, _>>()?;
        Ok(Self { sender: Some(sender), threads })
    }

    /// Looks at one state of the store.
    pub(crate) async fn call<T, F>(&self, look: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let look: Look = Box::new(move |connection| {
            // A panic must not take the thread, and with it all further reads. Its transaction is rolled back.
            let looked = catch_unwind(AssertUnwindSafe(|| in_one_state(connection, look)))
                .unwrap_or_else(|_| Err(Fault::Defect("a read panicked".to_owned())));
            // The caller may have gone away.
            let _ = answer.send(looked);
        });
        let sender = self.sender.as_ref().expect("only dropping the readers takes the sender");
        sender.send(look).await.map_err(|_| closed())?;
        Ok(answered.await.map_err(|_| closed())??)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.sender = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("an SQLite reader ended in a panic");
            }
        }
    }
}

fn run(connection: &Connection, receiver: &Mutex<mpsc::Receiver<Look>>) {
    loop {
        // One thread waits with the lock held, the others for the lock: either way the next read wakes one.
        let look = receiver.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match look {
            Some(look) => look(connection),
            None => return,
        }
    }
}

fn in_one_state<T>(
    connection: &Connection,
    look: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let looked = look(connection);
    transaction.finish()?;
    looked
}

#[cfg(test)]
mod tests {
    use windlass_core::StoreErrorKind;

    use super::*;

    #[tokio::test]
    async fn a_panic_concerns_one_caller_only() {
        let readers = Readers::start(vec![Connection::open_in_memory().unwrap()]).unwrap();
        for _ in 0..3 {
            let panicked = readers.call::<(), _>(|_| panic!("a read that panics")).await;
            assert_eq!(panicked.unwrap_err().kind(), StoreErrorKind::Fatal);
        }
        let one: i64 = readers
            .call(|connection| Ok(connection.query_row("SELECT 1", [], |row| row.get(0))?))
            .await
            .unwrap();
        assert_eq!(one, 1);
    }
}
