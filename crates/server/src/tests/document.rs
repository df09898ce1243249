//! The document that is kept is the one that is served, and names everything that it refers to.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::Scene;
use crate::document::openapi_text;

#[test]
fn the_document_that_is_kept_is_the_one_of_this_program() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/openapi.json");
    if std::env::var_os("WINDLASS_WRITE_OPENAPI").is_some() {
        std::fs::write(&path, openapi_text()).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == openapi_text(),
        "the API has changed: run this test with WINDLASS_WRITE_OPENAPI=1, and look at the difference of docs/api/openapi.json"
    );
}

#[test]
fn every_shape_that_is_referred_to_is_there_and_every_operation_has_one_name() {
    let document: Value = serde_json::from_str(openapi_text()).unwrap();
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (verb, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name), "{verb} {path} has the name of another one: {name}");
            assert!(operation["tags"][0] != "crate", "{name} has no tag");
        }
    }
    for part in openapi_text().split("\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(!document["components"]["schemas"][name].is_null(), "{name} is not described");
    }
}

#[tokio::test]
async fn the_document_and_its_page_are_served() {
    let scene = Scene::open();
    assert_eq!(scene.get("/api/v1/openapi.json").await.text, openapi_text());
    let page = scene.get("/api").await;
    assert!(
        page.text.contains("<code>/api/v1/jobs/{id}</code>") && !page.text.contains("<script"),
        "{}",
        page.text
    );
    assert!(page.headers["content-security-policy"].to_str().unwrap().contains("style-src 'sha256-"));
}
