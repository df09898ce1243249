//! Lists whose items are read one by one: a job that a newer server sends in a form that this program does not know harms
//! none of its neighbours.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use windlass_core::job::{Counters, Facts, LostJob, Spec, Unreadable};
use windlass_core::queue::{Counts, QueueConfig, QueueRecord};
use windlass_core::{Bytes, ClaimedJob, Fence, JobId, JobRecord, Name, State, Timestamp};

/// A list of which each item is read by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Each<T>(pub Vec<T>);

/// What can be read by itself, and stands for itself where it cannot.
pub trait Item: Serialize + for<'de> Deserialize<'de> {
    /// What is known of one that does not read; nothing where not even that is known, and then the answer makes no sense.
    fn unreadable(text: &str, why: String) -> Option<Self>;
}

impl<T: Serialize> Serialize for Each<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de, T: Item> Deserialize<'de> for Each<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let texts = Vec::<&RawValue>::deserialize(from)?;
        let read = |text: &&RawValue| {
            serde_json::from_str(text.get()).or_else(|error| {
                T::unreadable(text.get(), error.to_string()).ok_or_else(|| D::Error::custom(error))
            })
        };
        texts.iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

/// What every form of a job says of it.
#[derive(Deserialize)]
struct Known {
    id: JobId,
    queue: Name,
    #[serde(default = "Name::unreadable")]
    kind: Name,
}

impl Item for Option<JobRecord> {
    fn unreadable(text: &str, why: String) -> Option<Self> {
        JobRecord::unreadable(text, why).map(Some)
    }
}

impl Item for JobRecord {
    fn unreadable(text: &str, why: String) -> Option<Self> {
        #[derive(Deserialize)]
        struct More {
            state: State,
            fence: u64,
            #[serde(default)]
            enqueued_at: Option<Timestamp>,
        }
        let Known { id, queue, kind } = serde_json::from_str(text).ok()?;
        let More { state, fence, enqueued_at } = serde_json::from_str(text).ok()?;
        let enqueued_at = enqueued_at.unwrap_or(Timestamp::from_micros(0));
        Some(Self {
            id,
            queue,
            kind,
            state,
            reason: None,
            payload: Bytes::new(),
            output: None,
            progress: None,
            priority: 0,
            key: None,
            unique: None,
            counters: Counters::default(),
            spec: Spec::default(),
            tags: Vec::new(),
            fence,
            cancel_requested: false,
            has_begun: false,
            unreadable: Some(Unreadable::Broken(why)),
            enqueued_at,
            due_at: enqueued_at,
            expires_at: None,
            finished_at: None,
            attempts: Vec::new(),
        })
    }
}

/// A job that was claimed; one that does not read is for the worker to give back by its fence.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed(pub Result<Box<ClaimedJob>, Box<LostJob>>);

impl Serialize for Claimed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(job) => job.serialize(to),
            Err(lost) => Err(S::Error::custom(format_args!("job {} is not known whole", lost.id))),
        }
    }
}

impl<'de> Deserialize<'de> for Claimed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        ClaimedJob::deserialize(from).map(|job| Self(Ok(Box::new(job))))
    }
}

impl Item for Claimed {
    /// The server could read it, so it is of a newer program, and for that to run.
    fn unreadable(text: &str, _why: String) -> Option<Self> {
        #[derive(Deserialize)]
        struct More {
            fence: Fence,
            facts: Counted,
        }
        #[derive(Deserialize)]
        struct Counted {
            counters: Counters,
        }
        let Known { id, queue, kind } = serde_json::from_str(text).ok()?;
        let More { fence, facts: Counted { counters } } = serde_json::from_str(text).ok()?;
        Some(Self(Err(Box::new(LostJob {
            id,
            fence,
            facts: Facts { counters, spec: Spec::default() },
            queue,
            kind,
            worker: String::new(),
            has_begun: false,
            unreadable: Some(Unreadable::Newer { form: i64::from(super::VERSION) + 1 }),
        }))))
    }
}

impl Item for QueueRecord {
    fn unreadable(text: &str, why: String) -> Option<Self> {
        #[derive(Deserialize)]
        struct Rest {
            name: Name,
            counts: Counts,
        }
        let Rest { name, counts } = serde_json::from_str(text).ok()?;
        Some(Self { name, config: QueueConfig::unreadable(), counts, permits: None, unreadable: Some(why) })
    }
}
