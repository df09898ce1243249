//! `cargo xtask test`: every test there is.

use anyhow::Result;

use crate::{needs, shell};

/// Finds what the tests need, then runs them.
pub(crate) fn run() -> Result<()> {
    needs::c_compiler()?;
    // One build for both, so that the binaries that tests start are those that were just built.
    shell::cargo("build", ["build", "--workspace", "--all-targets"]).run()?;
    if needs::has_nextest() {
        shell::cargo("test", ["nextest", "run", "--workspace"]).run()?;
    } else {
        shell::cargo("test", ["test", "--workspace", "--all-targets"]).run()?;
    }
    shell::cargo("test the documentation", ["test", "--workspace", "--doc"]).run()
}
