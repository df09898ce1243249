//! The page at `/api`: the document for people to read. Plain HTML that is made here; no script, nothing from elsewhere.

use std::sync::OnceLock;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
code,pre{font-family:ui-monospace,monospace;font-size:.9em}section{border-top:1px solid #8884;padding:.5rem 0}\
h2{font-size:1.05rem;margin:.5rem 0}.verb{display:inline-block;min-width:4.5rem;font-weight:700}\
table{border-collapse:collapse}td,th{text-align:left;vertical-align:top;padding:.15rem .8rem .15rem 0}\
:root{color-scheme:light dark}";

pub(crate) async fn page() -> impl IntoResponse {
    static PAGE: OnceLock<String> = OnceLock::new();
    let page =
        PAGE.get_or_init(|| html(&serde_json::to_value(crate::document::openapi()).unwrap_or_default()));
    ([(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, policy())], page.as_str())
}

/// Nothing but this style, by its hash.
fn policy() -> &'static str {
    static POLICY: OnceLock<String> = OnceLock::new();
    POLICY.get_or_init(|| {
        let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE));
        format!("default-src 'none'; style-src 'sha256-{hash}'; frame-ancestors 'none'; base-uri 'none'")
    })
}

fn html(document: &Value) -> String {
    let text = |value: &Value| escaped(value.as_str().unwrap_or_default());
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Windlass API</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style>\
         <h1>Windlass API</h1><p>{}</p><p><a href=\"/api/v1/openapi.json\">OpenAPI document</a></p>",
        text(&document["info"]["description"])
    );
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (verb, operation) in item.as_object().into_iter().flatten() {
            out += &format!(
                "<section id=\"{}\"><h2><span class=\"verb\">{}</span> <code>{}</code></h2><p>{}</p>",
                text(&operation["operationId"]),
                escaped(&verb.to_uppercase()),
                escaped(path),
                text(&operation["description"]),
            );
            out += &parameters(&operation["parameters"]);
            if let Some(body) = operation.pointer("/requestBody/content/application~1json/schema") {
                out += &format!("<p>Takes {}.</p>", shape(body));
            }
            if let Some(answer) = operation["responses"].as_object().and_then(|all| {
                all.iter().find(|(status, _)| status.starts_with('2')).map(|(_, answer)| answer)
            }) && let Some(schema) = answer.pointer("/content/application~1json/schema")
            {
                out += &format!("<p>Answers {}.</p>", shape(schema));
            }
            out += "</section>";
        }
    }
    out += "<h1>Shapes</h1>";
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let name = escaped(name);
        out += &format!(
            "<section id=\"shape-{name}\"><h2><code>{name}</code></h2><p>{}</p>",
            text(&schema["description"])
        );
        out += &fields(schema);
        out += "</section>";
    }
    out
}

fn parameters(parameters: &Value) -> String {
    let rows: String = parameters
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            row(
                one["name"].as_str().unwrap_or_default(),
                one["required"] == true,
                &one["schema"],
                &one["description"],
            )
        })
        .collect();
    table(&rows)
}

fn fields(schema: &Value) -> String {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let rows: String = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, field)| row(name, required.contains(&name.as_str()), field, &field["description"]))
        .collect();
    let values: Vec<String> = schema["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|value| format!("<code>{}</code>", escaped(&value.to_string())))
        .collect();
    let values =
        if values.is_empty() { String::new() } else { format!("<p>One of {}.</p>", values.join(", ")) };
    table(&rows) + &values
}

fn row(name: &str, is_required: bool, schema: &Value, description: &Value) -> String {
    let must = if is_required { "required" } else { "" };
    let description = escaped(description.as_str().unwrap_or_default());
    format!(
        "<tr><td><code>{}</code></td><td>{}</td><td>{must}</td><td>{description}</td></tr>",
        escaped(name),
        shape(schema)
    )
}

fn table(rows: &str) -> String {
    if rows.is_empty() { String::new() } else { format!("<table>{rows}</table>") }
}

/// A shape in a word, with a link where it has a name.
fn shape(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        let name = escaped(name);
        return format!("<a href=\"#shape-{name}\"><code>{name}</code></a>");
    }
    if let Some(items) = schema.get("items") {
        return format!("list of {}", shape(items));
    }
    for several in ["oneOf", "anyOf"] {
        if let Some(some) = schema[several].as_array() {
            let some: Vec<String> = some.iter().filter(|one| one["type"] != "null").map(shape).collect();
            return some.join(" or ");
        }
    }
    match &schema["type"] {
        Value::String(kind) => escaped(kind),
        Value::Array(kinds) => {
            let kinds: Vec<String> =
                kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").map(escaped).collect();
            kinds.join(" or ")
        }
        _ => "any JSON".to_owned(),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}
