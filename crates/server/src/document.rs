//! The OpenAPI document, put together from the table of routes.

use std::sync::OnceLock;

use utoipa::openapi::path::{Operation, PathItem, Paths};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Response,
    ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use crate::problem::{Code, Problem};
use crate::routes::{Route, table};

const ABOUT: &str = "\
Everything that the library can do, over HTTP. Names are those of the command line. Durations are text as `30s` or \
`1h 30m`, instants RFC 3339 in UTC. Lists are pages: `items`, `next` to pass as `after`, how many entries were looked at, \
and whether the list is complete; a `limit` that is too large is lowered. Errors are `application/problem+json` with a \
stable `code`. Fields that are not known are refused.";

/// The document.
pub(crate) fn openapi() -> OpenApi {
    let (mut paths, mut components) = (Paths::new(), Components::new());
    for route in table() {
        components.schemas.extend(route.schemas.iter().cloned());
        let (path, verb) = (route.path.clone(), route.verb());
        let operation = described(route);
        match paths.paths.get_mut(&path) {
            Some(item) => item.merge_operations(PathItem::new(verb, operation)),
            None => drop(paths.paths.insert(path, PathItem::new(verb, operation))),
        }
    }
    components.schemas.insert(Problem::name().into(), Problem::schema());
    components.schemas.insert(Code::name().into(), Code::schema());
    components
        .security_schemes
        .insert("token".to_owned(), RefOr::T(SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer))));
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Windlass")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(ABOUT))
                .license(Some(LicenseBuilder::new().name("MIT OR Apache-2.0").build()))
                .build(),
        )
        .paths(paths)
        .components(Some(components))
        .security(Some([SecurityRequirement::new("token", Vec::<String>::new())]))
        .build()
}

/// An operation with what all have: its role, and the answer to what goes wrong.
fn described(route: Route) -> Operation {
    let Route { role, is_open, mut operation, .. } = route;
    let role = if is_open { "Needs no token.".to_owned() } else { format!("Role: {}.", role.as_str()) };
    if is_open {
        operation.security = Some(Vec::new());
    }
    operation.description = Some(match operation.description.take().filter(|text| !text.is_empty()) {
        Some(text) => format!("{text}\n\n{role}"),
        None => role,
    });
    operation.responses.responses.insert("default".to_owned(), RefOr::T(problem()));
    operation
}

fn problem() -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build();
    ResponseBuilder::new().description("What is wrong.").content("application/problem+json", content).build()
}

/// The document as it is served and kept in `docs/api/openapi.json`.
pub fn openapi_text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        // By way of a value, whose keys have an order: the text is the same each time.
        let value = serde_json::to_value(openapi()).expect("the document is JSON");
        serde_json::to_string_pretty(&value).expect("a value is JSON") + "\n"
    })
}
