//! Plain functions as handlers: the job first, then up to eight extractors.

use std::future::Future;

use crate::ctx::Ctx;
use crate::extract::FromCtx;
use crate::job::Job;
use crate::job_error::{Classify, JobError};

/// What a handler of this job returns, its error already classified.
pub(crate) type Returned<J> = Result<<J as Job>::Output, JobError>;

/// An async function that can run a job. `S` is the worker's state; `M` only tells functions with different
/// arguments apart.
#[diagnostic::on_unimplemented(
    message = "this function is not a job handler",
    label = "expected `async fn(job: J, extractors...) -> Result<J::Output, E>`",
    note = "`J` implements `Job`; each of up to 8 extractors implements `FromCtx` for the worker's state (`Ctx`, `Client`, `State<T>`); `E` implements `Classify` (`JobError` does); the future is `Send`",
    note = "`windlass::check::handler(f)` names the clause that is broken"
)]
pub trait Handler<S, M>: Send + Sync + 'static {
    /// The job it runs.
    type Job: Job;

    /// Extracts the arguments and runs.
    #[doc(hidden)]
    fn call(&self, job: Self::Job, ctx: &Ctx, state: &S) -> impl Future<Output = Returned<Self::Job>> + Send;
}

/// A function that may block its thread and can run a job. It is run on a bounded pool of threads, after its
/// extractors.
#[diagnostic::on_unimplemented(
    message = "this function is not a blocking job handler",
    label = "expected `fn(job: J, extractors...) -> Result<J::Output, E>`",
    note = "`J` implements `Job`; each of up to 8 extractors implements `FromCtx` for the worker's state (`Ctx`, `Client`, `State<T>`); `E` implements `Classify` (`JobError` does)",
    note = "`windlass::check::blocking_handler::<(), _, _>(f)` names the clause that is broken"
)]
pub trait BlockingHandler<S, M>: Clone + Send + Sync + 'static {
    /// The job it runs.
    type Job: Job;

    /// Extracts the arguments and leaves what is to be run.
    #[doc(hidden)]
    fn prepare(
        &self,
        job: Self::Job,
        ctx: &Ctx,
        state: &S,
    ) -> impl Future<Output = Result<impl FnOnce() -> Returned<Self::Job> + Send + 'static, JobError>> + Send;
}

macro_rules! handlers {
    ($($extractor:ident)*) => {
        impl<S, F, Fut, J, E, $($extractor,)*> Handler<S, (J, $($extractor,)*)> for F
        where
            S: Sync,
            F: Fn(J, $($extractor,)*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<J::Output, E>> + Send,
            J: Job,
            E: Classify,
            $($extractor: FromCtx<S>,)*
        {
            type Job = J;

            #[allow(non_snake_case, unused_variables)]
            async fn call(&self, job: J, ctx: &Ctx, state: &S) -> Returned<J> {
                $(let $extractor = extract::<S, $extractor>(ctx, state).await?;)*
                self(job, $($extractor,)*).await.map_err(|error| JobError::of(&error))
            }
        }

        impl<S, F, J, E, $($extractor,)*> BlockingHandler<S, (J, $($extractor,)*)> for F
        where
            S: Sync,
            F: Fn(J, $($extractor,)*) -> Result<J::Output, E> + Clone + Send + Sync + 'static,
            J: Job,
            E: Classify,
            $($extractor: FromCtx<S> + 'static,)*
        {
            type Job = J;

            #[allow(non_snake_case, unused_variables)]
            async fn prepare(
                &self,
                job: J,
                ctx: &Ctx,
                state: &S,
            ) -> Result<impl FnOnce() -> Returned<J> + Send + 'static, JobError> {
                $(let $extractor = extract::<S, $extractor>(ctx, state).await?;)*
                let handler = self.clone();
                Ok(move || handler(job, $($extractor,)*).map_err(|error| JobError::of(&error)))
            }
        }
    };
}

handlers!();
handlers!(E1);
handlers!(E1 E2);
handlers!(E1 E2 E3);
handlers!(E1 E2 E3 E4);
handlers!(E1 E2 E3 E4 E5);
handlers!(E1 E2 E3 E4 E5 E6);
handlers!(E1 E2 E3 E4 E5 E6 E7);
handlers!(E1 E2 E3 E4 E5 E6 E7 E8);

async fn extract<S, T: FromCtx<S>>(ctx: &Ctx, state: &S) -> Result<T, JobError> {
    T::from_ctx(ctx, state).await.map_err(|rejection| JobError::of(&rejection))
}
