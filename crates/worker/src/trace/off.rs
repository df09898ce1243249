//! No spans.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use windlass_core::job::Trace;
use windlass_core::{NewJob, Outcome};

use crate::ctx::Ctx;

/// The span of an attempt.
#[derive(Debug, Default)]
pub(crate) struct AttemptSpan(());

impl AttemptSpan {
    pub(crate) const fn trace(&self) -> Option<&Trace> {
        None
    }

    pub(crate) const fn end(&self, _outcome: &Outcome) {}
}

/// An attempt that runs inside a span: there is none.
pub(crate) enum Traced {}

impl Traced {
    pub(crate) const fn of(_ctx: &Ctx) -> Option<Self> {
        None
    }

    pub(crate) async fn follow<F: Future<Output = ()>>(self, _run: impl FnOnce() -> F) {
        match self {}
    }
}

/// Outcomes that are being recorded.
pub(crate) struct Settling;

impl Settling {
    pub(crate) fn begin<'a>(_attempts: impl Iterator<Item = &'a Ctx>) -> Self {
        Self
    }

    pub(crate) const fn end(self, _failed: bool) {}
}

pub(crate) const fn attach(_ctx: &Ctx) -> Option<Infallible> {
    None
}

pub(crate) fn capture<'a>(_jobs: impl IntoIterator<Item = &'a mut NewJob>) {}

pub(crate) const fn send(_job: &mut NewJob) -> Option<Infallible> {
    None
}

pub(crate) const fn send_all(_jobs: &mut Arc<[NewJob]>) -> Option<Infallible> {
    None
}
