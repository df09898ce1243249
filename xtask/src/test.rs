//! `cargo xtask test`: every test there is.

use anyhow::Result;

use crate::busy::Busy;
use crate::servers::Servers;
use crate::{needs, shell};

/// Finds what the tests need, then runs them, if wanted on a machine that has other things to do.
pub(crate) fn run(is_busy: bool) -> Result<()> {
    needs::c_compiler()?;
    needs::servers()?;
    // One build for both, so that the binaries that tests start are those that were just built.
    shell::cargo("build", ["build", "--workspace", "--all-targets"]).run()?;
    let _busy = if is_busy { Some(Busy::start()?) } else { None };
    let servers = Servers::start()?;
    let tests = if needs::has_nextest() {
        shell::cargo("test", ["nextest", "run", "--workspace"])
    } else {
        shell::cargo("test", ["test", "--workspace", "--all-targets"])
    };
    tests.envs(servers.environment()).run()?;
    shell::cargo("test the documentation", ["test", "--workspace", "--doc"]).envs(servers.environment()).run()
}
