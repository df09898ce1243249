//! Names what is wrong with a handler, clause by clause.
//!
//! `Worker::handle` takes every function that fits. Of one that does not, the compiler can only say that it is not a
//! handler. Put the function through a check, and there is one error for each clause that is broken, beside that one:
//!
//! ```compile_fail,E0277
//! # use serde::{Deserialize, Serialize};
//! # use windlass::{Job, JobError, Worker};
//! # #[derive(Serialize, Deserialize)]
//! # struct Greet { name: String }
//! # impl Job for Greet { const KIND: &'static str = "greet"; type Output = (); }
//! async fn greet(job: Greet, name: String) -> Result<(), String> { Ok(()) }
//!
//! # #[tokio::main]
//! # async fn main() -> windlass::Result<()> {
//! # let client = windlass::open("memory:").await?;
//! Worker::new(&client).handle(windlass::check::handler(greet)).run().await
//! // error: `String` cannot be an argument of a handler on a worker with state `()`
//! // error: `String` does not say what should become of the job
//! # }
//! ```
//!
//! A check answers the function itself and does nothing when the program runs, so it may stay. The traits here are for
//! the compiler's words only; a program needs none of them.

use windlass_worker::{Answers, Batch, Classify, FromCtx, FromWorker, Job};

/// Checks a handler for a worker without state, and answers it.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Ctx, Job, JobError};
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// async fn greet(job: Greet, ctx: Ctx) -> Result<usize, JobError> { Ok(job.name.len()) }
///
/// windlass::check::handler(greet);
/// ```
///
/// Each of these is one error. **It has one to nine arguments**, of which the first is the job:
///
/// ```compile_fail,E0277
/// # use windlass::JobError;
/// async fn greet() -> Result<usize, JobError> { Ok(0) }
/// windlass::check::handler(greet); // a handler is a function of a job and of up to 8 extractors
/// ```
///
/// **The job implements [`Job`]**:
///
/// ```compile_fail,E0277
/// # use windlass::JobError;
/// struct Greet { name: String }
/// async fn greet(job: Greet) -> Result<usize, JobError> { Ok(job.name.len()) }
/// windlass::check::handler(greet); // `Greet` is not a job
/// ```
///
/// **Every other argument is an extractor** of the worker's state: `Ctx`, `Client`, `State<T>`, or what has
/// [`FromCtx`]:
///
/// ```compile_fail,E0277
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Job, JobError};
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// async fn greet(job: Greet, greeting: String) -> Result<usize, JobError> { Ok(greeting.len()) }
/// windlass::check::handler(greet); // `String` cannot be an argument of a handler on a worker with state `()`
/// ```
///
/// **It is async**; one that blocks its thread goes to `Worker::handle_blocking` and [`blocking_handler`]:
///
/// ```compile_fail,E0277
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Job, JobError};
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// fn greet(job: Greet) -> Result<usize, JobError> { Ok(job.name.len()) }
/// windlass::check::handler(greet); // a handler must be an `async fn`
/// ```
///
/// **Its future is `Send`**: nothing that stays on one thread lives across an `await`:
///
/// ```compile_fail
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Job, JobError};
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// async fn greet(job: Greet) -> Result<usize, JobError> {
///     let name = std::rc::Rc::new(job.name);
///     tokio::task::yield_now().await;
///     Ok(name.len())
/// }
/// windlass::check::handler(greet); // future returned by `greet` is not `Send`
/// ```
///
/// **It returns a `Result`**:
///
/// ```compile_fail,E0277
/// # use serde::{Deserialize, Serialize};
/// # use windlass::Job;
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// async fn greet(job: Greet) -> usize { job.name.len() }
/// windlass::check::handler(greet); // a handler must return a `Result`, and this one returns `usize`
/// ```
///
/// **In it is the output of the job**:
///
/// ```compile_fail,E0277
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Job, JobError};
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// async fn greet(job: Greet) -> Result<String, JobError> { Ok(job.name) }
/// windlass::check::handler(greet); // the output of this job is `usize`, and its handler returns `String`
/// ```
///
/// **Its error says what should become of the job** ([`Classify`]):
///
/// ```compile_fail,E0277
/// # use serde::{Deserialize, Serialize};
/// # use windlass::Job;
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// async fn greet(job: Greet) -> Result<usize, std::io::Error> { Ok(job.name.len()) }
/// windlass::check::handler(greet); // `std::io::Error` does not say what should become of the job
/// ```
pub fn handler<F, A>(handler: F) -> F
where
    F: Function<A> + Send + Sync + 'static,
    F::Job: Job,
    F::Extractors: Extractors<()>,
    F::Returned: HandlerFuture + Send,
    Awaited<F, A>: Answer<Value: OutputOf<<F::Job as Job>::Output>, Error: Classify>,
{
    handler
}

/// Checks a handler for a worker with state `S`, and answers it.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Job, JobError, State};
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = (); }
/// #[derive(Clone)]
/// struct App { greeting: String }
///
/// async fn greet(job: Greet, app: State<App>) -> Result<(), JobError> {
///     println!("{} {}", app.greeting, job.name);
///     Ok(())
/// }
///
/// windlass::check::handler_with::<App, _, _>(greet);
/// ```
///
/// A part that the state does not have:
///
/// ```compile_fail,E0277
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Job, JobError, State};
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = (); }
/// # #[derive(Clone)]
/// # struct App { greeting: String }
/// async fn greet(job: Greet, greeting: State<String>) -> Result<(), JobError> { Ok(()) }
/// windlass::check::handler_with::<App, _, _>(greet); // `String` is not a part of a worker's state `App`
/// ```
pub fn handler_with<S, F, A>(handler: F) -> F
where
    F: Function<A> + Send + Sync + 'static,
    F::Job: Job,
    F::Extractors: Extractors<S>,
    F::Returned: HandlerFuture + Send,
    Awaited<F, A>: Answer<Value: OutputOf<<F::Job as Job>::Output>, Error: Classify>,
{
    handler
}

/// Checks a handler that blocks its thread, for a worker with state `S`, and answers it.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Job, JobError};
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// fn greet(job: Greet) -> Result<usize, JobError> { Ok(job.name.len()) }
/// windlass::check::blocking_handler::<(), _, _>(greet);
/// ```
///
/// One that is async goes to `Worker::handle`:
///
/// ```compile_fail,E0277
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Job, JobError};
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// async fn greet(job: Greet) -> Result<usize, JobError> { Ok(job.name.len()) }
/// windlass::check::blocking_handler::<(), _, _>(greet); // a handler must return a `Result`
/// ```
pub fn blocking_handler<S, F, A>(handler: F) -> F
where
    F: Function<A> + Clone + Send + Sync + 'static,
    F::Job: Job,
    F::Extractors: Extractors<S> + 'static,
    F::Returned: Answer<Value: OutputOf<<F::Job as Job>::Output>, Error: Classify>,
{
    handler
}

/// Checks a handler of batches, for a worker with state `S`, and answers it.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Client, Job, JobError};
/// # use windlass::worker::{Answers, Batch};
/// # #[derive(Serialize, Deserialize)]
/// # struct Row { name: String }
/// # impl Job for Row { const KIND: &'static str = "row"; type Output = (); }
/// async fn insert(rows: Batch<Row>, client: Client) -> Result<Answers<Row>, JobError> { Ok(rows.done()) }
/// windlass::check::batch_handler::<(), _, _, _>(insert);
/// ```
///
/// A `Ctx` is that of one item, and no argument:
///
/// ```compile_fail,E0277
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Ctx, Job, JobError};
/// # use windlass::worker::{Answers, Batch};
/// # #[derive(Serialize, Deserialize)]
/// # struct Row { name: String }
/// # impl Job for Row { const KIND: &'static str = "row"; type Output = (); }
/// async fn insert(rows: Batch<Row>, ctx: Ctx) -> Result<Answers<Row>, JobError> { Ok(rows.done()) }
/// windlass::check::batch_handler::<(), _, _, _>(insert); // `Ctx` cannot be an argument of a batch handler
/// ```
pub fn batch_handler<S, F, A, J>(handler: F) -> F
where
    F: Function<A, Job = Batch<J>> + Send + Sync + 'static,
    J: Job,
    F::Extractors: BatchExtractors<S>,
    F::Returned: HandlerFuture + Send,
    Awaited<F, A>: Answer<Value: OutputOf<Answers<J>>, Error: Classify>,
{
    handler
}

/// What the function answers when it is awaited.
type Awaited<F, A> = <<F as Function<A>>::Returned as HandlerFuture>::Awaited;

/// A function with the number of arguments of a handler.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a handler is a function of a job and of up to 8 extractors",
    label = "has no argument, more than nine, or is not a function"
)]
pub trait Function<A> {
    type Job;
    type Extractors;
    type Returned;
}

/// Arguments that a worker with state `S` can make.
#[doc(hidden)]
pub trait Extractors<S> {}

/// Arguments that a worker with state `S` can make for all items of a batch.
#[doc(hidden)]
pub trait BatchExtractors<S> {}

#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a handler must be an `async fn`, and this function returns `{Self}`",
    label = "not async",
    note = "write `async fn`; a function that blocks its thread goes to `Worker::handle_blocking`"
)]
pub trait HandlerFuture {
    type Awaited;
}

// Otherwise the compiler says that the value is not a future, and not what that means here.
#[diagnostic::do_not_recommend]
impl<F: Future> HandlerFuture for F {
    type Awaited = F::Output;
}

#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a handler must return a `Result`, and this one returns `{Self}`",
    label = "not a `Result`",
    note = "return `Result<_, JobError>`; a function that is async goes to `Worker::handle`"
)]
pub trait Answer {
    type Value;
    type Error;
}

impl<T, E> Answer for Result<T, E> {
    type Value = T;
    type Error = E;
}

#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the output of this job is `{T}`, and its handler returns `{Self}`",
    label = "another output than the job's",
    note = "return `Result<{T}, _>`, or say `type Output = {Self};` where the job implements `Job`"
)]
pub trait OutputOf<T> {}

impl<T> OutputOf<T> for T {}

macro_rules! functions {
    ($($extractor:ident)*) => {
        impl<F, J, R, $($extractor,)*> Function<(J, $($extractor,)*)> for F
        where
            F: Fn(J, $($extractor,)*) -> R,
        {
            type Job = J;
            type Extractors = ($($extractor,)*);
            type Returned = R;
        }

        impl<S, $($extractor: FromCtx<S>,)*> Extractors<S> for ($($extractor,)*) {}

        impl<S, $($extractor: FromWorker<S>,)*> BatchExtractors<S> for ($($extractor,)*) {}
    };
}

functions!();
functions!(E1);
functions!(E1 E2);
functions!(E1 E2 E3);
functions!(E1 E2 E3 E4);
functions!(E1 E2 E3 E4 E5);
functions!(E1 E2 E3 E4 E5 E6);
functions!(E1 E2 E3 E4 E5 E6 E7);
functions!(E1 E2 E3 E4 E5 E6 E7 E8);
