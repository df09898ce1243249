//! `completions`: a script that a shell loads.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::Exit;
use crate::session::Session;

pub(crate) fn run(session: &mut Session, shell: Shell) -> anyhow::Result<Exit> {
    // Written here first: the generator panics when its writer fails, and a closed pipe must not cause that.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "windlass", &mut script);
    session.output.bytes(&script)?;
    Ok(Exit::Done)
}
