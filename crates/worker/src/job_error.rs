//! How a handler says what went wrong and what should become of the job.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use windlass_core::Outcome;
use windlass_core::outcome::Failure;
use windlass_core::size::bounded_text;

/// The error of a handler that needs no error type of its own.
///
/// Any `std::error::Error` becomes one by `?` and counts as transient; [`ResultExt`] makes it permanent or
/// ambiguous instead.
///
/// ```
/// use windlass_worker::{JobError, ResultExt};
///
/// fn read(text: &str) -> Result<u32, JobError> {
///     let first = text.split(' ').next().ok_or_else(|| JobError::fail("nothing to read"))?;
///     Ok(first.parse::<u32>().fail()?) // trying again would not help
/// }
/// assert!(read("seven").is_err());
/// ```
///
/// Any other error needs a class; the compiler says `.retry()?` or `.fail()?`:
///
/// ```compile_fail,E0277
/// # use windlass_worker::{JobError, ResultExt};
/// fn read(text: Option<u32>) -> Result<u32, JobError> {
///     Ok(text.ok_or("nothing to read")?)
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct JobError {
    verdict: Verdict,
    text: String,
}

/// What should become of a job after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Try again by the job's policy.
    Retry,
    /// Try again, after this delay. Uses an attempt.
    RetryAfter(Duration),
    /// It is not known whether the effect happened: try again, but only a few times.
    Ambiguous,
    /// Trying again would not help: dead now.
    Fail,
    /// Not yet: come back after this delay. Costs no attempt.
    Snooze(Duration),
    /// Another system permits no more for now: come back after this delay, and let the job's key, or its queue where it has
    /// none, rest that long on all workers. Costs no attempt.
    RateLimited(Duration),
    /// No longer wanted: cancelled, as intended.
    Discard,
}

/// An error type of handlers that knows its classes.
///
/// ```
/// use std::time::Duration;
/// use windlass_worker::{Classify, Verdict};
///
/// enum MailError { NoSuchMailbox, Throttled(Duration), Line(std::io::Error) }
///
/// impl Classify for MailError {
///     fn message(&self) -> String {
///         match self {
///             Self::NoSuchMailbox => "no such mailbox".into(),
///             Self::Throttled(_) => "too many mails".into(),
///             Self::Line(error) => error.to_string(),
///         }
///     }
///     fn verdict(&self) -> Verdict {
///         match self {
///             Self::NoSuchMailbox => Verdict::Fail,
///             Self::Throttled(delay) => Verdict::RetryAfter(*delay),
///             Self::Line(_) => Verdict::Retry,
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what should become of the job",
    label = "not a handler's error",
    note = "return `Result<_, JobError>`: `.retry()?` and `.fail()?` of `ResultExt` turn an error into one, and `?` alone means `.retry()?` for any `std::error::Error`",
    note = "or implement `Classify` for `{Self}`"
)]
pub trait Classify: Send + 'static {
    /// The text that people read; cut to the queue's cap before it is stored.
    fn message(&self) -> String;

    /// What should become of the job.
    fn verdict(&self) -> Verdict {
        Verdict::Retry
    }
}

impl JobError {
    /// A transient error: tried again by the job's policy.
    pub fn new(text: impl Into<String>) -> Self {
        Self::with(Verdict::Retry, text)
    }

    /// The same as [`JobError::new`], where this name reads better.
    pub fn retry(text: impl Into<String>) -> Self {
        Self::new(text)
    }

    /// A permanent error: dead now.
    pub fn fail(text: impl Into<String>) -> Self {
        Self::with(Verdict::Fail, text)
    }

    /// It is not known whether the effect happened: tried again, but only a few times.
    pub fn ambiguous(text: impl Into<String>) -> Self {
        Self::with(Verdict::Ambiguous, text)
    }

    /// A transient error that says when to try again. Uses an attempt.
    pub fn retry_after(delay: Duration, text: impl Into<String>) -> Self {
        Self::with(Verdict::RetryAfter(delay), text)
    }

    /// Not yet: come back after this delay. Costs no attempt.
    pub fn snooze(delay: Duration) -> Self {
        Self::with(Verdict::Snooze(delay), "not yet")
    }

    /// Another system permits no more for now, as with an HTTP status of 429: come back after this delay. Until then no job
    /// of the same key starts on any worker, or none of the queue if the job has no key. Costs no attempt. The rest is a
    /// pause with an end: `windlass queues` shows it, and it can be ended earlier.
    pub fn rate_limited(delay: Duration) -> Self {
        Self::with(Verdict::RateLimited(delay), format!("rate limited for {delay:?}"))
    }

    /// How long the key or the queue should rest, if so.
    pub(crate) fn rate_limit(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::RateLimited(delay) => Some(delay),
            _ => None,
        }
    }

    /// No longer wanted: cancelled, as intended.
    pub fn discard(why: impl Into<String>) -> Self {
        Self::with(Verdict::Discard, why)
    }

    /// An error with this verdict.
    pub fn with(verdict: Verdict, text: impl Into<String>) -> Self {
        Self { verdict, text: text.into() }
    }

    /// What a classified error says.
    pub(crate) fn of(error: &impl Classify) -> Self {
        Self { verdict: error.verdict(), text: error.message() }
    }

    /// The outcome to report, with the text cut to `cap` bytes.
    pub(crate) fn into_outcome(self, cap: usize) -> Outcome {
        let failure = || Failure::error(bounded_text(&self.text, cap));
        match self.verdict {
            Verdict::Retry => Outcome::Retry { failure: failure() },
            Verdict::RetryAfter(after) => Outcome::RetryAfter { after, failure: failure() },
            Verdict::Ambiguous => Outcome::Ambiguous { failure: failure() },
            Verdict::Fail => Outcome::Fail { failure: failure() },
            Verdict::Snooze(after) | Verdict::RateLimited(after) => Outcome::Snooze { after },
            Verdict::Discard => Outcome::Discard { why: bounded_text(&self.text, cap) },
        }
    }
}

/// Not a `std::error::Error` itself, so that every such error can become one.
impl<E: IntoJobError> From<E> for JobError {
    fn from(error: E) -> Self {
        error.into_job_error()
    }
}

/// What `?` alone turns into a [`JobError`]: every `std::error::Error`, as transient. A trait of its own, so that the
/// compiler can say what to do with any other error.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`?` does not say what should become of the job after `{Self}`",
    label = "write `.retry()?` to try again or `.fail()?` to give up, with `use windlass::ResultExt`"
)]
pub trait IntoJobError {
    fn into_job_error(self) -> JobError;
}

#[diagnostic::do_not_recommend]
impl<E: StdError + Send + Sync + 'static> IntoJobError for E {
    fn into_job_error(self) -> JobError {
        JobError::new(chain(&self))
    }
}

impl Classify for JobError {
    fn message(&self) -> String {
        self.text.clone()
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// An error that cannot happen needs no class.
impl Classify for std::convert::Infallible {
    fn message(&self) -> String {
        match *self {}
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.verdict, self.text)
    }
}

/// Gives the error of a result a class before `?`. Takes every error that can be boxed: those of
/// the standard library's trait, `anyhow`'s, boxed ones and plain texts.
pub trait ResultExt<T> {
    /// Transient: trying again may help. What `?` alone means for errors of the standard library's trait.
    fn retry(self) -> Result<T, JobError>;

    /// Permanent: trying again would not help.
    fn fail(self) -> Result<T, JobError>;

    /// Ambiguous: it is not known whether the effect happened.
    fn ambiguous(self) -> Result<T, JobError>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> ResultExt<T> for Result<T, E> {
    fn retry(self) -> Result<T, JobError> {
        self.map_err(|error| JobError::new(chain(&*error.into())))
    }

    fn fail(self) -> Result<T, JobError> {
        self.map_err(|error| JobError::fail(chain(&*error.into())))
    }

    fn ambiguous(self) -> Result<T, JobError> {
        self.map_err(|error| JobError::ambiguous(chain(&*error.into())))
    }
}

/// Causes of an error that are said.
const CAUSES_MAX: usize = 32;
/// Bytes that an error and its causes have together.
const CHAIN_MAX: usize = 1 << 20;

/// The text of an error and of what caused it, as `a: b: c`. A cause that its error already quotes is not
/// said twice. Bounded: the causes of an error may go in a circle, and a text may have no end.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = said(error, CHAIN_MAX);
    let mut source = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(cause) = source else { return text };
        if text.len() >= CHAIN_MAX {
            break;
        }
        let said = said(cause, CHAIN_MAX - text.len());
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text.push_str(if source.is_some() { ": … (more causes)" } else { "" });
    text
}

/// What an error says, up to so many bytes.
fn said(error: &dyn StdError, bytes_max: usize) -> String {
    struct Bounded(String, usize);
    impl fmt::Write for Bounded {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            let end = part.floor_char_boundary(self.1 - self.0.len());
            self.0.push_str(&part[..end]);
            if end < part.len() { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut text = Bounded(String::new(), bytes_max);
    // Fails when the room is used up, which is what it is for.
    let _ = fmt::write(&mut text, format_args!("{error}"));
    text.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot send")]
    struct Outer(#[source] std::num::ParseIntError);

    #[test]
    fn a_std_error_is_transient_and_keeps_its_causes() {
        let error = JobError::from(Outer("x".parse::<u8>().unwrap_err()));
        assert_eq!(error.verdict(), Verdict::Retry);
        assert_eq!(error.message(), "cannot send: invalid digit found in string");
    }

    /// One that says more than fits anywhere, and whose cause is itself.
    #[derive(Debug)]
    struct Endless;

    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                f.write_str("für immer ")?;
            }
        }
    }

    impl StdError for Endless {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&Self)
        }
    }

    /// One that is its own cause, and says something else each time.
    #[derive(Debug)]
    struct Growing(Box<std::sync::atomic::AtomicU32>);

    impl fmt::Display for Growing {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "turn {}", self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        }
    }

    impl StdError for Growing {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(self)
        }
    }

    #[test]
    fn causes_that_go_in_a_circle_and_texts_without_an_end_are_bounded() {
        let text = chain(&Growing(Box::default()));
        assert!(text.starts_with("turn 0: turn 1: turn 2"), "{text}");
        assert!(text.ends_with("turn 32: … (more causes)"), "{text}");
        let text = chain(&Endless);
        assert!(text.len() <= CHAIN_MAX + 64 && text.starts_with("für immer für"), "{}", text.len());
    }

    #[test]
    fn a_result_can_be_given_a_class() {
        let failed = "x".parse::<u8>().fail().unwrap_err();
        assert_eq!(failed.verdict(), Verdict::Fail);
        let unsure = "x".parse::<u8>().ambiguous().unwrap_err();
        assert_eq!(unsure.verdict(), Verdict::Ambiguous);
    }

    #[test]
    fn boxed_errors_and_texts_can_be_given_a_class_too() {
        let boxed: Result<(), Box<dyn StdError + Send + Sync>> = Err("no route".into());
        let failed = boxed.retry().unwrap_err();
        assert_eq!((failed.verdict(), failed.message()), (Verdict::Retry, "no route".to_owned()));
        assert_eq!(Err::<(), _>("nothing there").fail().unwrap_err().verdict(), Verdict::Fail);
    }

    #[test]
    fn the_text_is_cut() {
        let Outcome::Retry { failure } = JobError::new("y".repeat(10 << 20)).into_outcome(1_000) else {
            panic!("a transient error is a retry")
        };
        assert!(failure.text.len() <= 1_000);
    }
}
