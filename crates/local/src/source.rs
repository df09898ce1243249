//! Where runners come from: they are spawned, or a driver runs them. The shared state of a queue adds runners through
//! it; tokens reach a queue through it, too, because only what is spawned can be reached from anywhere.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use crate::shared::Shared;
use crate::sync::{Mutex, lock};
use crate::token::{Cancels, Token};
use crate::work::Work;

/// Where the runners of a queue come from.
pub(crate) enum RunnerSource<W: Work> {
    Spawned {
        spawn: Box<dyn Fn(Arc<Shared<W>>) + Send + Sync>,
        reach: fn(&Arc<Shared<W>>) -> Weak<dyn Cancels>,
    },
    /// What is driven may borrow, so nothing outside can hold it: the driver is asked instead.
    Driven(Arc<Mutex<DriverInbox>>),
}

/// What the driver is to do, and how it is woken.
#[derive(Debug, Default)]
pub(crate) struct DriverInbox {
    request: DriverRequest,
    waker: Option<Waker>,
}

/// What a driver is to do.
#[derive(Debug, Default)]
pub(crate) struct DriverRequest {
    /// How many runners it is to add.
    pub(crate) runners: usize,
    /// By which it is to cancel work.
    pub(crate) tokens: Vec<Token>,
}

impl<W: Work> RunnerSource<W> {
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

    /// Runners of a driver.
    pub(crate) fn driven() -> Self {
        Self::Driven(Arc::default())
    }

    #[cold]
    pub(crate) fn add(&self, shared: &Arc<Shared<W>>, runners: usize) {
        match self {
            Self::Spawned { spawn, .. } => (0..runners).for_each(|_| spawn(Arc::clone(shared))),
            Self::Driven(inbox) => DriverInbox::change(inbox, |request| request.runners += runners),
        }
    }

    /// Has a token tell this queue when it is cancelled.
    pub(crate) fn heed(&self, shared: &Arc<Shared<W>>, token: &Token) {
        match self {
            Self::Spawned { reach, .. } => token.watch(&reach(shared)),
            Self::Driven(inbox) => {
                let inbox: Weak<Mutex<DriverInbox>> = Arc::downgrade(inbox);
                let inbox: Weak<dyn Cancels> = inbox;
                token.watch(&inbox);
            }
        }
    }

    /// What the driver is to do; never anything if there is none.
    pub(crate) fn poll_request(&self, context: &Context<'_>) -> Poll<DriverRequest> {
        let Self::Driven(inbox) = self else { return Poll::Pending };
        let mut inbox = lock(inbox);
        if inbox.request.runners > 0 || !inbox.request.tokens.is_empty() {
            return Poll::Ready(std::mem::take(&mut inbox.request));
        }
        let stale = inbox.waker.replace(context.waker().clone());
        drop(inbox);
        // May be the last that keeps something alive, which then runs code of users.
        drop(stale);
        Poll::Pending
    }

    /// By which work is to be cancelled before any other is run; never any unless there is a driver.
    #[inline]
    pub(crate) fn take_tokens(&self) -> Vec<Token> {
        match self {
            Self::Spawned { .. } => Vec::new(),
            Self::Driven(inbox) => std::mem::take(&mut lock(inbox).request.tokens),
        }
    }

    /// Wakes the driver, if there is one, to see what has changed.
    pub(crate) fn wake_driver(&self) {
        if let Self::Driven(inbox) = self {
            DriverInbox::change(inbox, |_| ());
        }
    }
}

impl DriverInbox {
    fn change(inbox: &Mutex<Self>, change: impl FnOnce(&mut DriverRequest)) {
        let waker = {
            let mut inbox = lock(inbox);
            change(&mut inbox.request);
            inbox.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Cancels for Mutex<DriverInbox> {
    fn cancel_token(self: Arc<Self>, token: &Token) {
        DriverInbox::change(&self, |request| request.tokens.push(token.clone()));
    }
}
