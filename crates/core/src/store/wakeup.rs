//! The part that tells waiting workers that there may be something to do.

use crate::bell::Bell;

/// Wake-ups. They are hints; polling is the truth.
pub trait Wakeup {
    /// The bell of this process. The store rings it after its own writes have taken effect, and, where it
    /// can, when it hears of another process's: [`Topic::Work`] when jobs became ready or scheduled (what a
    /// claim promotes may go without), [`Topic::Cancel`] when a running job is asked to stop,
    /// [`Topic::Finish`] when jobs ended or were deleted. A ring too many is harmless.
    ///
    /// A ring about an enqueue may come while the jobs are on their way to the store, and stay the only one:
    /// a claim that begins after it sees them all the same, other reads may not yet.
    ///
    /// [`Topic::Work`]: crate::bell::Topic::Work
    /// [`Topic::Cancel`]: crate::bell::Topic::Cancel
    /// [`Topic::Finish`]: crate::bell::Topic::Finish
    fn bell(&self) -> &Bell;
}
