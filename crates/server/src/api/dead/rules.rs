//! Rules that send dead jobs back by themselves.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::Name;
use windlass_core::fingerprint::Fingerprint;
use windlass_worker::DeadRule;

use crate::access::Caller;
use crate::app::App;
use crate::extract::{At, Body};
use crate::problem::{Answer, Problem};
use crate::wire::{Page, Span};

/// A rule, as it is set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDeadRule)]
pub(crate) struct RuleForm {
    /// Only jobs of this kind.
    #[schema(value_type = Option<String>)]
    kind: Option<Name>,
    /// Only jobs that died of this error.
    #[schema(value_type = Option<String>)]
    fingerprint: Option<Fingerprint>,
    /// Only jobs whose last error has this text in it.
    error: Option<String>,
    /// How long after its death a job is sent back; an hour if nothing is said.
    after: Option<Span>,
    /// How often a job is sent back at most, by all rules together; once if nothing is said.
    #[schema(minimum = 1, maximum = 1000)]
    most: Option<u32>,
}

/// A rule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadRule)]
pub(crate) struct RuleView {
    /// The queue that it is about.
    #[schema(value_type = String)]
    queue: Name,
    /// What it is called.
    #[schema(value_type = String)]
    name: Name,
    /// Only jobs of this kind.
    #[schema(value_type = Option<String>)]
    kind: Option<Name>,
    /// Only jobs that died of this error.
    fingerprint: Option<String>,
    /// Only jobs whose last error has this text in it.
    error: Option<String>,
    /// How long after its death a job is sent back.
    after: Span,
    /// How often at most.
    most: u32,
}

/// A rule that was removed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RemovedDeadRule)]
pub(crate) struct RemovedRule {
    /// The queue that it was about.
    #[schema(value_type = String)]
    queue: Name,
    /// What it was called.
    #[schema(value_type = String)]
    name: Name,
    /// Always true.
    removed: bool,
}

impl RuleView {
    fn of(rule: DeadRule) -> Self {
        let DeadRule { queue, name, kind, fingerprint, error, after, most, .. } = rule;
        let fingerprint = fingerprint.map(|fingerprint| fingerprint.to_string());
        Self { queue, name, kind, fingerprint, error, after: Span(after), most }
    }
}

/// All rules.
#[utoipa::path(get, path = "/api/v1/dead/rules", tag = "dead", responses((status = 200, description = "A page that has all.", body = Page<RuleView>)))]
pub(crate) async fn list_rules(State(app): State<App>, caller: Caller) -> Answer<Page<RuleView>> {
    let rules = app.client().dead_rules().await?;
    let own = rules.into_iter().filter(|rule| caller.may_touch(&rule.queue));
    Ok(Json(Page::new(own.map(RuleView::of).collect(), None)))
}

/// Stores a rule, also over one of the same name.
#[utoipa::path(put, path = "/api/v1/dead/rules/{queue}/{name}", tag = "dead", params(("queue" = String, Path, description = "The queue."), ("name" = String, Path, description = "What it is called.")), request_body = RuleForm, responses((status = 200, description = "The rule.", body = RuleView)))]
pub(crate) async fn set_rule(
    State(app): State<App>,
    caller: Caller,
    At((queue, name)): At<(Name, Name)>,
    Body(form): Body<RuleForm>,
) -> Answer<RuleView> {
    caller.on(&queue)?;
    let mut rule = DeadRule::new(&queue, &name)?;
    if let Some(kind) = &form.kind {
        rule = rule.kind(kind)?;
    }
    if let Some(fingerprint) = form.fingerprint {
        rule = rule.fingerprint(fingerprint);
    }
    if let Some(error) = form.error {
        rule = rule.error(error);
    }
    if let Some(after) = form.after {
        rule = rule.after(after.0);
    }
    match form.most {
        Some(most @ 1..=1_000) => rule = rule.most(most),
        None => {}
        Some(_) => return Err(Problem::invalid("most", "give 1 to 1000")),
    }
    app.client().set_dead_rule(&rule).await?;
    Ok(Json(RuleView::of(rule)))
}

/// Removes a rule.
#[utoipa::path(delete, path = "/api/v1/dead/rules/{queue}/{name}", tag = "dead", params(("queue" = String, Path, description = "The queue."), ("name" = String, Path, description = "What it is called.")), responses((status = 200, description = "It is gone.", body = RemovedRule)))]
pub(crate) async fn remove_rule(
    State(app): State<App>,
    caller: Caller,
    At((queue, name)): At<(Name, Name)>,
) -> Answer<RemovedRule> {
    caller.on(&queue)?;
    if !app.client().remove_dead_rule(&queue, &name).await? {
        return Err(Problem::missing(format!("queue {queue} has no rule {name}")));
    }
    Ok(Json(RemovedRule { queue, name, removed: true }))
}
