//! What a handler may ask for beside its job.

use std::convert::Infallible;
use std::future::Future;
use std::ops::Deref;

use crate::client::Client;
use crate::ctx::Ctx;
use crate::job_error::Classify;

/// Something that can be made from an attempt and the worker's state `S`, and so be an argument of a handler.
///
/// ```
/// use windlass_worker::{Ctx, FromCtx, JobError};
///
/// struct Tenant(String);
///
/// impl<S: Sync> FromCtx<S> for Tenant {
///     type Rejection = JobError;
///     async fn from_ctx(ctx: &Ctx, _state: &S) -> Result<Self, JobError> {
///         let tag = ctx.tags().iter().find_map(|tag| tag.as_str().strip_prefix("tenant:"));
///         tag.map(|name| Tenant(name.to_owned())).ok_or_else(|| JobError::fail("the job has no tenant"))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler on a worker with state `{S}`",
    label = "not an extractor for this worker",
    note = "use `Ctx`, `Client`, or `State<T>` on a `Worker::with_state` whose state has `FromRef` for `T`; or implement `FromCtx<{S}>`"
)]
pub trait FromCtx<S>: Sized + Send {
    /// What an attempt that cannot give it ends with.
    type Rejection: Classify;

    /// Makes it.
    fn from_ctx(ctx: &Ctx, state: &S) -> impl Future<Output = Result<Self, Self::Rejection>> + Send;
}

/// A part of the worker's state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a part of a worker's state `{S}`",
    label = "the state has no such part",
    note = "make the worker with `Worker::with_state` and a state that has it: implement `FromRef<{S}>` for `{Self}`"
)]
pub trait FromRef<S> {
    /// Takes the part out.
    fn from_ref(state: &S) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(state: &T) -> T {
        state.clone()
    }
}

/// The worker's state, or a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

impl<T> Deref for State<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<S: Sync, T: FromRef<S> + Send> FromCtx<S> for State<T> {
    type Rejection = Infallible;
    async fn from_ctx(_ctx: &Ctx, state: &S) -> Result<Self, Infallible> {
        Ok(Self(T::from_ref(state)))
    }
}

impl<S: Sync> FromCtx<S> for Ctx {
    type Rejection = Infallible;
    async fn from_ctx(ctx: &Ctx, _state: &S) -> Result<Self, Infallible> {
        Ok(ctx.clone())
    }
}

impl<S: Sync> FromCtx<S> for Client {
    type Rejection = Infallible;
    async fn from_ctx(ctx: &Ctx, _state: &S) -> Result<Self, Infallible> {
        Ok(ctx.client().clone())
    }
}
