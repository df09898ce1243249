//! The table of routes: what each needs, in one line. A route is a handler with its method, path and description
//! (`#[utoipa::path]`); the line adds the role, and how far a token that is limited to some queues reaches.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use utoipa::openapi::path::{HttpMethod, Operation};
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::router::UtoipaMethodRouter;

use crate::access::{Caller, Role};
use crate::api;
use crate::app::App;
use crate::audit::Detail;
use crate::problem::{Code, Problem};

/// How far a token that is limited to some queues reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The handler asks `Caller::on` for each queue that it reads or writes, or leaves out what is not the caller's.
    Queues,
    /// It is about the whole store: such a token is refused.
    Store,
}

/// Whether a request leaves an entry in the audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audited {
    Yes,
    No,
}

/// A line of the table.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) role: Role,
    pub(crate) reach: Reach,
    pub(crate) audited: Audited,
    pub(crate) is_open: bool,
    pub(crate) operation: Operation,
    pub(crate) schemas: Vec<(String, RefOr<Schema>)>,
    handler: MethodRouter<App>,
}

/// A handler with the role that it needs and its reach. What changes something is audited, unless the line ends otherwise.
macro_rules! route {
    ($role:ident, $reach:ident, $handler:path) => {
        Route::new(Role::$role, Reach::$reach, utoipa_axum::routes!($handler))
    };
}

/// All routes.
pub(crate) fn table() -> Vec<Route> {
    vec![
        // The store.
        route!(Viewer, Queues, api::about::about),
        route!(Viewer, Queues, api::about::openapi),
        route!(Viewer, Store, api::doctor::examine),
        route!(Viewer, Store, api::seen::metrics),
        route!(Viewer, Store, api::seen::working),
        route!(Viewer, Queues, api::session::begin_session).open(),
        route!(Viewer, Queues, api::session::get_session),
        route!(Viewer, Queues, api::session::end_session).unaudited(),
        // Jobs.
        route!(Viewer, Queues, api::jobs::list::list_jobs),
        route!(Operator, Queues, api::enqueue::enqueue_job).unaudited(),
        route!(Operator, Queues, api::enqueue::enqueue_jobs).unaudited(),
        route!(Viewer, Queues, api::jobs::get_job),
        route!(Operator, Queues, api::jobs::cancel_job),
        route!(Operator, Queues, api::jobs::retry_job),
        route!(Operator, Queues, api::jobs::delete_job),
        route!(Viewer, Queues, api::explain::explain_job),
        route!(Viewer, Queues, api::jobs::said::list_attempts),
        route!(Viewer, Queues, api::jobs::said::list_logs),
        route!(Viewer, Queues, api::jobs::said::job_events),
        route!(Operator, Queues, api::jobs::again::run_again),
        route!(Operator, Queues, api::jobs::again::edit_job),
        route!(Operator, Queues, api::jobs::again::move_job),
        // Queues, their records, their workers.
        route!(Viewer, Queues, api::queues::list_queues),
        route!(Viewer, Queues, api::queues::get_queue),
        route!(Operator, Queues, api::queues::define_queue),
        route!(Admin, Queues, api::queues::remove_queue),
        route!(Operator, Queues, api::queues::pause_queue),
        route!(Operator, Queues, api::queues::resume_queue),
        route!(Viewer, Queues, api::queues::list_keys),
        route!(Viewer, Queues, api::backlog::get_backlog),
        route!(Viewer, Queues, api::tallies::get_tallies),
        route!(Viewer, Queues, api::records::list_records),
        route!(Viewer, Queues, api::records::get_record),
        route!(Admin, Queues, api::records::put_record),
        route!(Admin, Queues, api::records::remove_record),
        route!(Viewer, Queues, api::workers::list_workers),
        // Dead letters.
        route!(Viewer, Queues, api::dead::list_dead),
        route!(Viewer, Queues, api::dead::group_dead),
        route!(Viewer, Queues, api::dead::sample_dead),
        route!(Operator, Queues, api::dead::bulk::replay_dead),
        route!(Operator, Queues, api::dead::bulk::purge_dead),
        route!(Viewer, Queues, api::dead::rules::list_rules),
        route!(Operator, Queues, api::dead::rules::set_rule),
        route!(Operator, Queues, api::dead::rules::remove_rule),
        // Flows and schedules.
        route!(Viewer, Queues, api::flows::list_flows),
        route!(Viewer, Queues, api::flows::get_flow),
        route!(Operator, Queues, api::flows::cancel_flow),
        route!(Operator, Queues, api::flows::retry_flow),
        route!(Viewer, Queues, api::schedules::list_schedules),
        route!(Viewer, Queues, api::schedules::get_schedule),
        route!(Operator, Queues, api::schedules::set_schedule),
        route!(Operator, Queues, api::schedules::delete_schedule),
        route!(Operator, Queues, api::schedules::pause_schedule),
        route!(Operator, Queues, api::schedules::resume_schedule),
        route!(Operator, Queues, api::schedules::run_schedule),
        route!(Viewer, Queues, api::schedules::list_slots),
        route!(Viewer, Queues, api::schedules::preview_schedule).unaudited(),
        // The store itself, call by call: its handler asks for more, by the call.
        route!(Viewer, Queues, api::store::call_store).unaudited(),
        // Tokens and audit.
        route!(Admin, Store, api::tokens::list_tokens),
        route!(Admin, Store, api::tokens::create_token),
        route!(Admin, Store, api::tokens::revoke_token),
        route!(Admin, Store, api::audit::list_audit),
    ]
}

impl Route {
    fn new(role: Role, reach: Reach, (schemas, paths, handler): UtoipaMethodRouter<App>) -> Self {
        let (path, item) = paths.paths.into_iter().next().expect("a handler has a path");
        let operations = [
            (Method::GET, item.get),
            (Method::PUT, item.put),
            (Method::POST, item.post),
            (Method::PATCH, item.patch),
            (Method::DELETE, item.delete),
        ];
        let only = operations.into_iter().find_map(|(method, operation)| Some((method, operation?)));
        let (method, operation) = only.expect("a handler has a method");
        let audited = if method.is_safe() { Audited::No } else { Audited::Yes };
        let is_open = false;
        Self { method, path, role, reach, audited, is_open, operation, schemas, handler }
    }

    /// It changes nothing, or so often that an entry for each would be worth less than it costs.
    fn unaudited(mut self) -> Self {
        self.audited = Audited::No;
        self
    }

    /// It needs no token: the guard lets it pass (`guard::OPEN`).
    fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// The method as OpenAPI has it.
    pub(crate) fn verb(&self) -> HttpMethod {
        match self.method {
            Method::PUT => HttpMethod::Put,
            Method::POST => HttpMethod::Post,
            Method::PATCH => HttpMethod::Patch,
            Method::DELETE => HttpMethod::Delete,
            _ => HttpMethod::Get,
        }
    }

    fn action(&self) -> String {
        self.operation.operation_id.clone().unwrap_or_default()
    }
}

/// What a route asks of its callers, beside its handler.
#[derive(Clone)]
struct Line {
    app: App,
    role: Role,
    reach: Reach,
    audited: Audited,
    action: String,
}

/// The router of all lines.
pub(crate) fn router(app: &App) -> Router<App> {
    let mut router = Router::new();
    for route in table() {
        let action = route.action();
        let Route { path, role, reach, audited, is_open, handler, .. } = route;
        if is_open {
            router = router.route(&path, handler);
            continue;
        }
        let line = Line { app: app.clone(), role, reach, audited, action };
        router = router.route(&path, handler.route_layer(from_fn_with_state(line, pass)));
    }
    router
        .route("/api/v1/", any(missing))
        .route("/api/v1/{*rest}", any(missing))
        .method_not_allowed_fallback(wrong_method)
}

/// Refuses callers that may not, and writes the audit.
async fn pass(
    State(line): State<Line>,
    caller: Caller,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    caller.needs(line.role)?;
    if line.reach == Reach::Store && caller.queues.is_some() {
        return Err(Code::Forbidden
            .because(format!(
                "this is about the whole store, and the token {:?} is limited to queues",
                caller.name
            ))
            .remedy("use a token that is not limited"));
    }
    if line.audited == Audited::No {
        return Ok(next.run(request).await);
    }
    let target = request.uri().path_and_query().map_or("", axum::http::uri::PathAndQuery::as_str);
    let what = format!("{} {target}", request.method());
    let begun = line.app.audit().begin(&caller, &line.action, &what).await?;
    // A caller that goes away must not leave a change without its outcome.
    let (app, answered) = (line.app, next.run(request));
    let call = tokio::spawn(async move {
        let response = answered.await;
        if let Some(begun) = begun {
            app.audit().end(begun, response.status().as_u16(), response.extensions().get::<Detail>()).await;
        }
        response
    });
    call.await
        .map_err(|_panic| Code::Internal.because("this is a defect").remedy("see the log of the server"))
}

async fn missing(request: Request) -> Problem {
    Problem::missing(format!("there is nothing at {}", request.uri().path()))
        .remedy("GET /api/v1/openapi.json lists all routes")
}

async fn wrong_method(request: Request) -> Response {
    Code::Method
        .because(format!("{} is not understood at {}", request.method(), request.uri().path()))
        .remedy("the header Allow lists the methods that are")
        .into_response()
}
