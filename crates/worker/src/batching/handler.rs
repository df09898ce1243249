//! Plain functions as batch handlers: the batch first, then what the worker has for all of its items.

use std::future::Future;

use super::{Answers, Batch};
use crate::client::Client;
use crate::extract::{FromRef, State};
use crate::job::Job;
use crate::job_error::{Classify, JobError};

/// An async function that can run a batch of jobs. `S` is the worker's state; `M` only tells functions with different
/// arguments apart.
#[diagnostic::on_unimplemented(
    message = "this function is not a batch handler",
    label = "expected `async fn(batch: Batch<J>, extractors...) -> Result<Answers<J>, E>`",
    note = "`J` implements `Job`; each of up to 4 extractors is a `State<T>` of the worker's state or a `Client`: a `Ctx` is an item's, as `item.ctx`; `E` implements `Classify` (`JobError` does); the future is `Send`",
    note = "`windlass::check::batch_handler::<(), _, _, _>(f)` names the clause that is broken"
)]
pub trait BatchHandler<S, M>: Send + Sync + 'static {
    /// The jobs that it runs.
    type Job: Job;

    /// Extracts the arguments and runs.
    #[doc(hidden)]
    fn call(
        &self,
        batch: Batch<Self::Job>,
        client: &Client,
        state: &S,
    ) -> impl Future<Output = Result<Answers<Self::Job>, JobError>> + Send;
}

/// What a batch handler may ask for beside its batch. Not what has [`FromCtx`](crate::FromCtx): a tenant, say, is one of
/// an item and perhaps not of the next.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a batch handler on a worker with state `{S}`",
    label = "not the same for all items",
    note = "use `Client`, or `State<T>` on a `Worker::with_state` whose state has `FromRef` for `T`; what belongs to one item is made from its `item.ctx`"
)]
pub trait FromWorker<S>: Sized + Send {
    /// Makes it.
    fn from_worker(client: &Client, state: &S) -> Self;
}

impl<S, T: FromRef<S> + Send> FromWorker<S> for State<T> {
    fn from_worker(_client: &Client, state: &S) -> Self {
        Self(T::from_ref(state))
    }
}

impl<S> FromWorker<S> for Client {
    fn from_worker(client: &Client, _state: &S) -> Self {
        client.clone()
    }
}

macro_rules! handlers {
    ($($extractor:ident)*) => {
        impl<S, F, Fut, J, E, $($extractor,)*> BatchHandler<S, (J, $($extractor,)*)> for F
        where
            S: Sync,
            F: Fn(Batch<J>, $($extractor,)*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<Answers<J>, E>> + Send,
            J: Job,
            E: Classify,
            $($extractor: FromWorker<S>,)*
        {
            type Job = J;

            #[allow(non_snake_case, unused_variables)]
            async fn call(&self, batch: Batch<J>, client: &Client, state: &S) -> Result<Answers<J>, JobError> {
                $(let $extractor = $extractor::from_worker(client, state);)*
                self(batch, $($extractor,)*).await.map_err(|error| JobError::of(&error))
            }
        }
    };
}

handlers!();
handlers!(E1);
handlers!(E1 E2);
handlers!(E1 E2 E3);
handlers!(E1 E2 E3 E4);
