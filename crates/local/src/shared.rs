//! The machine behind its lock, and what carries its effects out. Queue, handles and runners share one.

use std::sync::Arc;
use std::task::Waker;

use crate::error::{Error, Why, drop_quietly};
use crate::machine::{Effects, Id, Machine, Options, Settings};
use crate::source::RunnerSource;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, lock};
use crate::token::{Cancels, Token};
use crate::work::Work;

/// What all parts of one queue share.
pub(crate) struct Shared<W: Work> {
    machine: Mutex<Machine<W>>,
    pub(crate) source: RunnerSource<W>,
    /// A hint, to refuse work before it is packed up.
    is_closed: AtomicBool,
    /// Whether there can ever be too many. If not, no caller has to ask for a place.
    is_bounded: bool,
}

impl<W: Work> Shared<W> {
    pub(crate) fn new(settings: Settings, source: RunnerSource<W>) -> Arc<Self> {
        let is_bounded = settings.capacity != usize::MAX;
        let machine = Mutex::new(Machine::new(settings));
        Arc::new(Self { machine, source, is_closed: AtomicBool::new(false), is_bounded })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Machine<W>> {
        lock(&self.machine)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Makes sure that there is room for one more, and that no caller waits for it. Answers whether a place is promised,
    /// which is to be used at once.
    #[inline]
    pub(crate) fn find_room(&self) -> Result<bool, Error> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        if self.is_bounded {
            let mut machine = self.lock();
            if machine.is_full() {
                return Err(Error::Full);
            }
            machine.room.promise();
        }
        Ok(self.is_bounded)
    }

    /// Does something to the machine and then, unlocked, what follows from it.
    #[inline]
    pub(crate) fn act<R>(self: &Arc<Self>, action: impl FnOnce(&mut Machine<W>, &mut Effects<W>) -> R) -> R {
        let mut effects = Effects::new();
        let result = action(&mut self.lock(), &mut effects);
        self.carry_out(effects);
        result
    }

    /// Takes work in if there is room, and gives it back if not. A promised place is used up, whatever comes out.
    /// What can be given back only as it came is packed up when it is sure to be taken, under the lock: that moves
    /// and allocates, and runs nothing of users.
    #[inline]
    pub(crate) fn insert<X>(
        self: &Arc<Self>,
        input: X,
        pack: impl FnOnce(X) -> W,
        options: Options,
        is_promised: bool,
    ) -> Result<Id, (Error, X)> {
        let mut effects = Effects::new();
        let taken = {
            let mut machine = self.lock();
            if is_promised {
                machine.room.redeem();
            }
            match self.objection(&machine, &options) {
                None => Ok(machine.insert(pack(input), options, &mut effects)),
                Some(error) => {
                    machine.admit(&mut effects);
                    Err((error, input))
                }
            }
        };
        self.carry_out(effects);
        taken
    }

    /// Why work cannot be taken in.
    #[inline]
    fn objection(&self, machine: &Machine<W>, options: &Options) -> Option<Error> {
        let token = options.extra.as_ref().and_then(|extra| extra.token.as_ref());
        if machine.is_closed() {
            Some(Error::Closed)
        } else if token.is_some_and(Token::is_cancelled) {
            Some(Error::Cancelled)
        } else {
            machine.is_full().then_some(Error::Full)
        }
    }

    /// Wakes, adds runners and refuses.
    #[inline]
    pub(crate) fn carry_out(self: &Arc<Self>, effects: Effects<W>) {
        if !effects.is_nothing() {
            self.carry_all_out(effects);
        }
    }

    fn carry_all_out(self: &Arc<Self>, mut effects: Effects<W>) {
        let (wakers, (refused, spare)) = effects.take();
        wakers.for_each(Waker::wake);
        if effects.adds > 0 {
            self.source.add(self, effects.adds);
        }
        refused.into_iter().for_each(drop_quietly);
        if let Some(spare) = spare {
            drop(spare);
        }
    }

    pub(crate) fn cancel(self: &Arc<Self>, id: Id) -> bool {
        self.act(|machine, effects| machine.cancel(id, Why::Cancelled, effects))
    }

    /// Cancels everything that hangs on this token.
    pub(crate) fn cancel_by(self: &Arc<Self>, token: &Token) {
        self.act(|machine, effects| machine.cancel_token(token, effects));
    }

    /// Cancels by all tokens that were left for the driver, if there is one.
    #[inline]
    pub(crate) fn heed_tokens(self: &Arc<Self>) {
        self.source.take_tokens().iter().for_each(|token| self.cancel_by(token));
    }

    /// Takes nothing in any more; what waits is run.
    pub(crate) fn close(self: &Arc<Self>) {
        self.end_with(Machine::close);
    }

    /// The last owner is gone.
    pub(crate) fn abandon(self: &Arc<Self>) {
        self.end_with(Machine::abandon);
    }

    /// The runtime is gone.
    pub(crate) fn end(self: &Arc<Self>) {
        self.end_with(Machine::end);
    }

    fn end_with(self: &Arc<Self>, ending: impl FnOnce(&mut Machine<W>, &mut Effects<W>)) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.act(ending);
        self.source.wake_driver();
    }
}

impl<W: Work + 'static> Cancels for Shared<W> {
    fn cancel_token(self: Arc<Self>, token: &Token) {
        self.cancel_by(token);
    }
}
