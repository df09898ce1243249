//! What a job of a flow waits for, as callers say it.

use std::fmt;
use std::marker::PhantomData;

use windlass_core::JobId;
use windlass_core::flow::{Edge, OnFailure};

/// A job that was added to a flow. Others can wait for it.
pub struct FlowNode<J> {
    flow: JobId,
    place: u32,
    id: JobId,
    job: PhantomData<fn() -> J>,
}

impl<J> FlowNode<J> {
    pub(super) fn new(flow: JobId, place: u32, id: JobId) -> Self {
        Self { flow, place, id, job: PhantomData }
    }

    /// The id that the job will have.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// What becomes of the job that waits for this one, if this one is dead or cancelled; without this, it fails as well.
    pub fn on_failure(&self, on_failure: OnFailure) -> Edges {
        Edges { flow: Some(self.flow), edges: vec![Edge { parent: self.place, on_failure }] }
    }
}

impl<J> Clone for FlowNode<J> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<J> Copy for FlowNode<J> {}

impl<J> fmt::Debug for FlowNode<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowNode").field("place", &self.place).field("id", &self.id).finish()
    }
}

/// Jobs that another one waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edges {
    /// The flow that all of them are of; one of its own where they are of several.
    pub(super) flow: Option<JobId>,
    pub(super) edges: Vec<Edge>,
}

impl Edges {
    fn and(mut self, other: Self) -> Self {
        self.flow = match (self.flow, other.flow) {
            (Some(one), Some(other)) if one != other => Some(JobId::new()),
            (one, other) => one.or(other),
        };
        self.edges.extend(other.edges);
        self
    }
}

/// What a job can wait for: a [`FlowNode`], [`Edges`], or a tuple, an array, a slice or a vector of these.
pub trait After {
    /// The edges.
    fn edges(&self) -> Edges;
}

impl<J> After for FlowNode<J> {
    fn edges(&self) -> Edges {
        self.on_failure(OnFailure::Fail)
    }
}

impl After for Edges {
    fn edges(&self) -> Edges {
        self.clone()
    }
}

impl<T: After + ?Sized> After for &T {
    fn edges(&self) -> Edges {
        T::edges(self)
    }
}

impl<T: After> After for [T] {
    fn edges(&self) -> Edges {
        self.iter().fold(Edges::default(), |all, each| all.and(each.edges()))
    }
}

impl<T: After> After for Vec<T> {
    fn edges(&self) -> Edges {
        self.as_slice().edges()
    }
}

impl<T: After, const N: usize> After for [T; N] {
    fn edges(&self) -> Edges {
        self.as_slice().edges()
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: After),*> After for ($($name,)*) {
            #[allow(non_snake_case)]
            fn edges(&self) -> Edges {
                let ($($name,)*) = self;
                Edges::default()$(.and($name.edges()))*
            }
        }
    )*};
}

tuples! { (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }
