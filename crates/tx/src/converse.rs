//! The driver's side of a conversation: statements are run as they are asked for, one after the other.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use windlass_core::sql::{Ask, Dialect, Heard, Operator, Row, SqlError};
use windlass_core::store::StoreResult;

/// What a driver's transaction has to do. Not nameable from outside, so no other type can be a [`Tx`](crate::Tx).
pub trait Converse {
    /// What it speaks.
    const DIALECT: Dialect;

    /// Lets a store talk over this transaction until it has an answer. On SQLite whatever it writes stands in
    /// a savepoint, which is rolled back when the answer is an error or the future is dropped.
    fn converse<T, F>(&mut self, operator: Operator, conversation: F) -> impl Future<Output = StoreResult<T>>
    where
        F: Future<Output = StoreResult<T>>;
}

/// Conversations with this driver end within the first poll.
pub trait Blocking {}

/// Something that runs statements.
pub(crate) trait Run {
    async fn run(&mut self, ask: Ask) -> Result<Vec<Row>, SqlError>;
}

/// Runs what the conversation asks for, until it ends.
#[allow(dead_code, reason = "nothing calls it without the feature of a driver")]
pub(crate) async fn serve<T, F: Future<Output = T>>(
    runner: &mut impl Run,
    mut operator: Operator,
    conversation: F,
) -> T {
    let mut conversation = pin!(conversation);
    loop {
        match operator.listen(conversation.as_mut()).await {
            Heard::End(end) => return end,
            Heard::Ask(ask) => operator.answer(runner.run(ask).await),
        }
    }
}

/// The answer of a conversation with a [`BlockingTx`](crate::BlockingTx), without a runtime.
///
/// # Panics
/// If the future waits for anything else.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a conversation with a blocking driver waits for nothing else"),
    }
}
