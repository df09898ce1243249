//! The definition of a queue as it is written and answered, with the names of the command line. What is answered can be sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::queue::{JobDefaults, Keep, KeyRules, QueueConfig, Rate, Retention};
use windlass_core::size::Caps;
use windlass_core::{Name, forms};

use crate::api::enqueue::OnDeadForm;
use crate::problem::Problem;
use crate::wire::{RetryForm, Span};

/// What a queue keeps, permits and hands out. What is not said has its default.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = QueueDefinition)]
pub(crate) struct Definition {
    /// How many of its jobs run at once, over all workers.
    #[schema(minimum = 1)]
    concurrency: Option<u32>,
    /// How many of its jobs start in a time, as `500/1m`.
    rate: Option<String>,
    /// How the rate is spread: `sliding`, `fixed` or `bucket:N`.
    rate_shape: Option<String>,
    /// How many of its jobs may wait.
    #[schema(minimum = 1)]
    capacity: Option<u64>,
    /// What a level of priority is worth, as `10s`.
    aging: Option<Span>,
    /// What holds for each key.
    keys: Option<KeysForm>,
    /// How long finished jobs stay.
    keep: KeepsForm,
    /// How large things may be, in bytes.
    caps: CapsForm,
    /// What holds for jobs that say nothing themselves.
    defaults: DefaultsForm,
    /// Whether contents of its jobs are shown only to those who ask to reveal them.
    masked: bool,
}

/// What holds for each key of a queue.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = KeyRules)]
struct KeysForm {
    /// How many jobs of one key run at once.
    #[schema(minimum = 1)]
    concurrency: Option<u32>,
    /// How many jobs of one key start in a time, as `10/1s`.
    rate: Option<String>,
    /// How that is spread.
    rate_shape: Option<String>,
    /// How often some keys have their turn beside others, 1 to 1000.
    #[schema(value_type = BTreeMap<String, u32>)]
    weights: BTreeMap<Name, u32>,
}

/// How long finished jobs stay, by how they ended.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Retention)]
struct KeepsForm {
    /// Completed ones; a day if nothing is said.
    completed: KeepForm,
    /// Dead ones; 90 days if nothing is said.
    dead: KeepForm,
    /// Cancelled ones; a week if nothing is said.
    cancelled: KeepForm,
}

/// How long and how many. Nothing for ever.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Keep)]
struct KeepForm {
    /// Older ones go.
    age: Option<Span>,
    /// The oldest above this number go.
    count: Option<u64>,
}

/// Sizes in bytes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Caps)]
struct CapsForm {
    /// The largest payload that is accepted.
    payload: usize,
    /// The largest output that is kept.
    output: usize,
    /// Error texts are cut to this.
    error: usize,
}

/// What holds for jobs that say nothing themselves.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = JobDefaults)]
struct DefaultsForm {
    /// When and how often they are tried again.
    retry: Option<RetryForm>,
    /// How long one attempt may take.
    timeout: Option<Span>,
    /// Higher is claimed first.
    priority: Option<i16>,
    /// What is enqueued when one dies.
    on_dead: Option<OnDeadForm>,
    /// The queue that dead ones are sent to.
    #[schema(value_type = Option<String>)]
    forward_dead: Option<Name>,
}

impl Default for KeepsForm {
    fn default() -> Self {
        let Retention { completed, dead, cancelled } = Retention::default();
        let of = |keep: Keep| KeepForm { age: keep.age.map(Span), count: keep.count };
        Self { completed: of(completed), dead: of(dead), cancelled: of(cancelled) }
    }
}

impl Default for CapsForm {
    fn default() -> Self {
        let Caps { payload, output, error } = Caps::default();
        Self { payload, output, error }
    }
}

fn rate(at: &str, text: Option<&str>, shape: Option<&str>) -> Result<Option<Rate>, Problem> {
    let Some(text) = text else {
        return match shape {
            Some(_) => Err(Problem::invalid(format!("{at}rate_shape"), "say the rate as well")),
            None => Ok(None),
        };
    };
    let rate = forms::rate(text).map_err(|why| Problem::invalid(format!("{at}rate"), why))?;
    let shape = shape.map(forms::shape).transpose();
    let shape = shape.map_err(|why| Problem::invalid(format!("{at}rate_shape"), why))?;
    Ok(Some(shape.map_or(rate, |shape| rate.shape(shape))))
}

impl Definition {
    pub(super) fn of(config: &QueueConfig) -> Self {
        let Retention { completed, dead, cancelled } = config.retention;
        let keep = |keep: Keep| KeepForm { age: keep.age.map(Span), count: keep.count };
        let Caps { payload, output, error } = config.caps;
        Self {
            concurrency: config.concurrency,
            rate: config.rate.as_ref().map(forms::rate_text),
            rate_shape: config.rate.map(|rate| forms::shape_text(rate.shape)),
            capacity: config.capacity,
            aging: config.aging.map(Span),
            keys: config.keys.as_ref().map(KeysForm::of),
            keep: KeepsForm { completed: keep(completed), dead: keep(dead), cancelled: keep(cancelled) },
            caps: CapsForm { payload, output, error },
            defaults: DefaultsForm::of(&config.defaults),
            masked: config.masked,
        }
    }

    pub(super) fn config(self) -> Result<QueueConfig, Problem> {
        let KeepsForm { completed, dead, cancelled } = self.keep;
        let keep = |form: KeepForm| Keep { age: form.age.map(|age| age.0), count: form.count };
        let CapsForm { payload, output, error } = self.caps;
        Ok(QueueConfig {
            retention: Retention { completed: keep(completed), dead: keep(dead), cancelled: keep(cancelled) },
            caps: Caps { payload, output, error },
            concurrency: self.concurrency,
            rate: rate("", self.rate.as_deref(), self.rate_shape.as_deref())?,
            capacity: self.capacity,
            aging: self.aging.map(|aging| aging.0),
            keys: self.keys.map(KeysForm::rules).transpose()?,
            defaults: self.defaults.defaults()?,
            masked: self.masked,
            ..QueueConfig::default()
        })
    }
}

impl KeysForm {
    fn of(rules: &KeyRules) -> Self {
        Self {
            concurrency: rules.concurrency,
            rate: rules.rate.as_ref().map(forms::rate_text),
            rate_shape: rules.rate.map(|rate| forms::shape_text(rate.shape)),
            weights: rules.weights.clone(),
        }
    }

    fn rules(self) -> Result<KeyRules, Problem> {
        let rate = rate("keys.", self.rate.as_deref(), self.rate_shape.as_deref())?;
        Ok(KeyRules { concurrency: self.concurrency, rate, weights: self.weights })
    }
}

impl DefaultsForm {
    fn of(defaults: &JobDefaults) -> Self {
        Self {
            retry: defaults.retry.as_ref().map(RetryForm::of),
            timeout: defaults.timeout.map(Span),
            priority: defaults.priority,
            on_dead: defaults.on_dead.as_ref().map(OnDeadForm::of),
            forward_dead: defaults.forward_dead.clone(),
        }
    }

    fn defaults(self) -> Result<JobDefaults, Problem> {
        Ok(JobDefaults {
            retry: self.retry.map(|retry| retry.policy("defaults.retry")).transpose()?,
            timeout: self.timeout.map(|timeout| timeout.0),
            priority: self.priority,
            on_dead: self.on_dead.map(|hook| hook.read("defaults.on_dead")).transpose()?,
            forward_dead: self.forward_dead,
        })
    }
}
