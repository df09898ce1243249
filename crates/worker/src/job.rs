//! What a job type says about itself, and how its payload and output become bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::{Bytes, JobId, Options};

/// A job: its payload is the type itself.
///
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use windlass_worker::Job;
/// use windlass_core::{Options, retry::Policy};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendEmail { to: String }
///
/// impl Job for SendEmail {
///     const KIND: &'static str = "send_email";
///     type Output = ();
///
///     fn options() -> Options {
///         Options::new().queue("mail").retry(Policy::exponential(8, Duration::from_secs(2)))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "does not implement `Job`",
    note = "derive serde's `Serialize` and `Deserialize` for `{Self}`, and implement `Job` with its `KIND` and `Output`"
)]
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name under which it is stored: a contract between programs, never the path of the Rust type.
    const KIND: &'static str;

    /// What its handler returns.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Options of every job of this type; what a call says wins over them.
    fn options() -> Options {
        Options::new()
    }

    /// The key that this job takes turns by, taken from its payload, such as the customer that it is for. What a call says
    /// wins over it, and it wins over [`options`](Job::options). None by default.
    fn key(&self) -> Option<String> {
        None
    }

    /// This job with options of its own, to be enqueued among others by
    /// [`enqueue_all`](crate::Client::enqueue_all).
    fn with(self, options: Options) -> With<Self> {
        With { job: self, id: None, options }
    }
}

/// A job and what is said about it alone.
#[derive(Debug, Clone, PartialEq)]
pub struct With<J> {
    pub(crate) job: J,
    pub(crate) id: Option<JobId>,
    pub(crate) options: Options,
}

impl<J> With<J> {
    /// The id to store it under, as [`Enqueue::id`](crate::Enqueue::id).
    #[must_use]
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }
}

/// What [`enqueue_all`](crate::Client::enqueue_all) takes: jobs, or jobs [with](Job::with) options of their own.
pub trait IntoJob {
    /// The type of the job.
    type Job: Job;

    /// The job, and what is said about it alone.
    fn into_job(self) -> With<Self::Job>;
}

impl<J: Job> IntoJob for J {
    type Job = J;

    fn into_job(self) -> With<J> {
        self.with(Options::new())
    }
}

impl<J: Job> IntoJob for With<J> {
    type Job = J;

    fn into_job(self) -> Self {
        self
    }
}

/// The job in a stored payload. No bytes at all count as `null`.
pub(crate) fn decode<J: Job>(payload: &[u8]) -> serde_json::Result<J> {
    serde_json::from_slice(if payload.is_empty() { b"null" } else { payload })
}

/// The output as it is stored; `null` takes no room.
pub(crate) fn encode_output<T: Serialize>(output: &T) -> serde_json::Result<Option<Bytes>> {
    let bytes = serde_json::to_vec(output)?;
    Ok(if bytes == b"null" { None } else { Some(bytes.into()) })
}

/// The output in what was stored.
pub(crate) fn decode_output<T: DeserializeOwned>(output: Option<&[u8]>) -> serde_json::Result<T> {
    serde_json::from_slice(output.unwrap_or(b"null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_takes_no_room() {
        assert_eq!(encode_output(&()).unwrap(), None);
        assert_eq!(encode_output(&None::<u8>).unwrap(), None);
        decode_output::<()>(None).unwrap();
        let seven = encode_output(&7u8).unwrap();
        assert_eq!(decode_output::<u8>(seven.as_deref()).unwrap(), 7);
    }
}
