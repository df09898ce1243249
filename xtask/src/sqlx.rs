//! Only one crate in a program may link SQLite. This proves that an application on sqlx 0.8 or 0.9, with or
//! without its SQLite driver, finds versions that go together with ours, and that our store compiles
//! against the oldest of them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::shell;

const NEIGHBOURS: [(&str, &str); 3] = [
    (
        "sqlx 0.9 with SQLite",
        r#"sqlx = { version = "0.9", default-features = false, features = ["sqlite"] }"#,
    ),
    (
        "sqlx 0.8 with PostgreSQL",
        r#"sqlx = { version = "0.8", default-features = false, features = ["postgres", "macros"] }"#,
    ),
    (
        "sqlx 0.8 with SQLite",
        r#"sqlx = { version = "0.8", default-features = false, features = ["sqlite"] }"#,
    ),
];

/// Resolves a small program beside each neighbour; checks our store beside the last, which is the oldest.
pub(crate) fn run() -> Result<()> {
    let folder = target().join("sqlx-neighbour");
    for (name, dependency) in NEIGHBOURS {
        write_program(&folder, dependency)?;
        let _ = fs::remove_file(folder.join("Cargo.lock"));
        shell::cargo(&format!("one SQLite beside {name}"), ["generate-lockfile", "--quiet"])
            .within(&folder)
            .run()?;
    }
    shell::cargo("the store with the oldest driver", ["check", "--quiet", "-p", "windlass-store-sqlite"])
        .within(&folder)
        .env("CARGO_TARGET_DIR", target().join("sqlx-neighbour-build").display())
        .run()
}

fn target() -> std::path::PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), Into::into)
}

fn write_program(folder: &Path, dependency: &str) -> Result<()> {
    let facade = shell::root().join("crates/windlass");
    fs::create_dir_all(folder.join("src")).context("cannot create the neighbour's folder")?;
    fs::write(folder.join("src/main.rs"), "fn main() {}\n")?;
    let manifest = format!(
        "[package]\nname = \"neighbour\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\n{dependency}\nwindlass = {{ path = {facade:?} }}\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).context("cannot write the neighbour's manifest")
}
