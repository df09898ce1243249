//! A conversation in SQL over a connection that belongs to the user.
//!
//! A store that can write inside its user's own transaction ([`Within`](crate::store::Within)) talks through a
//! [`Line`]: it asks for statements to be run and gets rows. At the other end an [`Operator`], held by the
//! code that knows the user's driver, runs them on the user's connection. Both ends are polled by the same
//! caller, so nothing is spawned, nothing is buffered, and dropping the call drops both. No driver's type
//! appears here.

mod value;

use std::error::Error as StdError;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use thiserror::Error;

pub use value::{Row, Value};

/// What is spoken at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL: parameters are `$1`, `$2`, …
    Postgres,
    /// SQLite: parameters are `?1`, `?2`, …
    Sqlite,
}

impl Dialect {
    /// The name as people know it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Sqlite => "SQLite",
        }
    }
}

/// The store's end: statements go in, rows come out.
#[derive(Debug)]
pub struct Line {
    wire: Wire,
}

/// The driver's end: hears what the store asks for and answers it.
#[derive(Debug)]
pub struct Operator {
    wire: Wire,
}

/// A statement to run.
#[derive(Debug)]
pub struct Ask {
    /// One statement.
    pub sql: String,
    /// Its parameters, in order.
    pub values: Vec<Value>,
}

/// What an [`Operator`] hears next.
#[derive(Debug)]
pub enum Heard<T> {
    /// Run this and [answer](Operator::answer) it.
    Ask(Ask),
    /// The conversation is over.
    End(T),
}

/// Opens a line between a store and the driver that runs its statements.
pub fn line() -> (Line, Operator) {
    let wire = Wire::default();
    (Line { wire: wire.clone() }, Operator { wire })
}

impl Line {
    /// Runs one statement on the other's connection and gives all its rows; none for a statement without
    /// a result.
    ///
    /// On PostgreSQL the parameters are of the types `int8`, `text`, `bytea`, `uuid` and arrays of these, and
    /// the columns may be of any integer type, `bool` (as 0 and 1), `text`, `bytea` and `uuid`: cast whatever
    /// else there is.
    pub async fn run(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, SqlError> {
        let mut ask = Some(Ask { sql: sql.to_owned(), values });
        poll_fn(|context| {
            let mut slot = self.wire.lock();
            if let Some(ask) = ask.take() {
                // An answer to a call that was dropped has no reader.
                slot.answer = None;
                slot.ask = Some(ask);
            } else if let Some(answer) = slot.answer.take() {
                return Poll::Ready(answer);
            }
            slot.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Operator {
    /// Lets the conversation go on until it asks for something or ends.
    pub async fn listen<F: Future>(&mut self, mut conversation: Pin<&mut F>) -> Heard<F::Output> {
        poll_fn(|context| {
            if let Poll::Ready(end) = conversation.as_mut().poll(context) {
                return Poll::Ready(Heard::End(end));
            }
            match self.wire.lock().ask.take() {
                Some(ask) => Poll::Ready(Heard::Ask(ask)),
                // It waits for something else, which will wake it.
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Answers the last [`Ask`].
    pub fn answer(&mut self, rows: Result<Vec<Row>, SqlError>) {
        let mut slot = self.wire.lock();
        slot.answer = Some(rows);
        // The conversation may sit in a combinator that polls it only when it was woken.
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

/// What the two ends share.
#[derive(Debug, Clone, Default)]
struct Wire {
    slot: Arc<Mutex<Slot>>,
}

#[derive(Debug, Default)]
struct Slot {
    ask: Option<Ask>,
    answer: Option<Result<Vec<Row>, SqlError>>,
    waker: Option<Waker>,
}

impl Wire {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a statement has no rows.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The database answered with an error.
    #[error("{text}")]
    Answered {
        /// PostgreSQL's SQLSTATE, or SQLite's extended result code as a decimal number.
        code: String,
        /// What it says.
        text: String,
        /// The driver's error.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// The connection failed; it is not known what became of the statement.
    #[error("{text}")]
    Broken {
        /// What happened.
        text: String,
        /// The driver's error.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// A row or a value is not of the shape that was expected.
    #[error("{0}")]
    Shape(String),
}

impl SqlError {
    /// The database's code, if it was the database that answered.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Answered { code, .. } => Some(code),
            Self::Broken { .. } | Self::Shape(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    /// Answers every statement with its parameters, and counts.
    async fn serve<F: Future>(mut operator: Operator, conversation: F) -> (F::Output, usize) {
        let mut conversation = pin!(conversation);
        let mut asked = 0;
        loop {
            match operator.listen(conversation.as_mut()).await {
                Heard::End(end) => return (end, asked),
                Heard::Ask(ask) => {
                    asked += 1;
                    operator.answer(Ok(vec![Row::new(ask.values)]));
                }
            }
        }
    }

    #[tokio::test]
    async fn a_conversation_asks_and_ends() {
        let (mut line, operator) = line();
        let conversation = async {
            let first = line.run("SELECT ?1", vec![Value::Int(Some(20))]).await?;
            let second = line.run("SELECT ?1", vec![Value::Int(Some(22))]).await?;
            Ok::<_, SqlError>(first[0].int(0)? + second[0].int(0)?)
        };
        let (sum, asked) = serve(operator, conversation).await;
        assert_eq!((sum.unwrap(), asked), (42, 2));
    }

    #[tokio::test]
    async fn a_conversation_may_wait_for_something_else() {
        let (mut line, operator) = line();
        let conversation = async {
            tokio::task::yield_now().await;
            let asked = Box::pin(line.run("SELECT 1", vec![]));
            // A combinator of the runtime polls its parts by their wakers.
            tokio::time::timeout(std::time::Duration::from_secs(60), asked).await.unwrap().unwrap().len()
        };
        assert_eq!(serve(operator, conversation).await, (1, 1));
    }

    #[tokio::test]
    async fn an_answer_to_a_dropped_question_is_not_taken_for_the_next_one() {
        let (mut line, mut operator) = line();
        let mut first = Box::pin(line.run("SELECT ?1", vec![Value::Int(Some(1))]));
        let Heard::Ask(ask) = operator.listen(first.as_mut()).await else { panic!("it asks") };
        drop(first);
        operator.answer(Ok(vec![Row::new(ask.values)]));
        let second = line.run("SELECT ?1", vec![Value::Int(Some(2))]);
        let (rows, _) = serve(operator, second).await;
        assert_eq!(rows.unwrap()[0].int(0).unwrap(), 2);
    }
}
