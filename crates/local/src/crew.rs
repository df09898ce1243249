//! Where runners come from: they are spawned, or somebody drives them. The shared state of a queue hires through it;
//! tokens reach a queue through it, too, because only what is spawned can be reached from anywhere.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use crate::shared::Shared;
use crate::sync::{Mutex, lock};
use crate::token::{Cancels, Token};
use crate::work::Work;

/// The runners of a queue.
pub(crate) enum Crew<W: Work> {
    Spawned {
        spawn: Box<dyn Fn(Arc<Shared<W>>) + Send + Sync>,
        reach: fn(&Arc<Shared<W>>) -> Weak<dyn Cancels>,
    },
    /// What is driven may borrow, so that nobody outside can have hold of it: the driver is told instead.
    Driven(Arc<Mutex<Wanted>>),
}

/// What the driver is to do, and how it is woken.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    errand: Errand,
    waker: Option<Waker>,
}

/// What a driver is to do.
#[derive(Debug, Default)]
pub(crate) struct Errand {
    /// How many runners it is to add.
    pub(crate) runners: usize,
    /// By which it is to cancel work.
    pub(crate) tokens: Vec<Token>,
}

impl<W: Work> Crew<W> {
    /// Runners that this function spawns.
    pub(crate) fn spawned(spawn: impl Fn(Arc<Shared<W>>) + Send + Sync + 'static) -> Self
    where
        W: 'static,
    {
        Self::Spawned {
            spawn: Box::new(spawn),
            reach: |shared| {
                let queue: Weak<Shared<W>> = Arc::downgrade(shared);
                queue
            },
        }
    }

    /// Runners that somebody drives.
    pub(crate) fn driven() -> Self {
        Self::Driven(Arc::default())
    }

    #[cold]
    pub(crate) fn hire(&self, shared: &Arc<Shared<W>>, runners: usize) {
        match self {
            Self::Spawned { spawn, .. } => (0..runners).for_each(|_| spawn(Arc::clone(shared))),
            Self::Driven(wanted) => Wanted::change(wanted, |errand| errand.runners += runners),
        }
    }

    /// Has a token tell this queue when it is cancelled.
    pub(crate) fn heed(&self, shared: &Arc<Shared<W>>, token: &Token) {
        match self {
            Self::Spawned { reach, .. } => token.watch(&reach(shared)),
            Self::Driven(wanted) => {
                let wanted: Weak<Mutex<Wanted>> = Arc::downgrade(wanted);
                let wanted: Weak<dyn Cancels> = wanted;
                token.watch(&wanted);
            }
        }
    }

    /// What the driver is to do; never anything if there is none.
    pub(crate) fn poll_errand(&self, context: &Context<'_>) -> Poll<Errand> {
        let Self::Driven(wanted) = self else { return Poll::Pending };
        let mut wanted = lock(wanted);
        if wanted.errand.runners > 0 || !wanted.errand.tokens.is_empty() {
            return Poll::Ready(std::mem::take(&mut wanted.errand));
        }
        let stale = wanted.waker.replace(context.waker().clone());
        drop(wanted);
        // May be the last that keeps something alive, which then runs code of users.
        drop(stale);
        Poll::Pending
    }

    /// By which work is to be cancelled before any other is run; never any unless there is a driver.
    #[inline]
    pub(crate) fn take_tokens(&self) -> Vec<Token> {
        match self {
            Self::Spawned { .. } => Vec::new(),
            Self::Driven(wanted) => std::mem::take(&mut lock(wanted).errand.tokens),
        }
    }

    /// Wakes the driver, if there is one, to see what has changed.
    pub(crate) fn wake_driver(&self) {
        if let Self::Driven(wanted) = self {
            Wanted::change(wanted, |_| ());
        }
    }
}

impl Wanted {
    fn change(wanted: &Mutex<Self>, change: impl FnOnce(&mut Errand)) {
        let waker = {
            let mut wanted = lock(wanted);
            change(&mut wanted.errand);
            wanted.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Cancels for Mutex<Wanted> {
    fn cancel_token(self: Arc<Self>, token: &Token) {
        Wanted::change(&self, |errand| errand.tokens.push(token.clone()));
    }
}
