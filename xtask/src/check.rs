//! `cargo xtask check`: everything about form that a machine can judge.

use anyhow::Result;

use crate::rivals::locks;
use crate::{needs, shell, sqlx, tidy, words};

/// The features of the facade, each of which must compile alone.
const FEATURES: [&str; 10] =
    ["", "capture", "http", "local", "metrics", "opentelemetry", "server", "sqlite", "postgres", "redis"];

/// Runs all checks, the quick ones first.
pub(crate) fn run() -> Result<()> {
    needs::c_compiler()?;
    tidy::run()?;
    words::run()?;
    locks::check()?;
    shell::cargo("formatting", ["fmt", "--all", "--check"]).run()?;
    shell::cargo("lints", ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()?;
    shell::cargo("documentation", ["doc", "--workspace", "--no-deps"])
        .args(["--features", "windlass-store-testkit/servers"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    for feature in FEATURES {
        shell::cargo(
            "feature alone",
            ["check", "-p", "windlass", "--no-default-features", "--features", feature],
        )
        .run()?;
    }
    sqlx::run()
}
