//! The `windlass` command. Parses, runs one command, and turns its answer or error into an exit code; nothing
//! else here decides how the program ends.

mod args;
mod command;
mod exit;
mod interrupt;
mod output;
mod session;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};

use crate::args::Cli;
use crate::exit::Exit;
use crate::output::clean;
use crate::session::{Origin, Session, Typed};

fn main() -> ExitCode {
    let matches = match Cli::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return refuse(&error),
    };
    let is_typed = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
    let origin = match matches.value_source("store") {
        _ if is_typed("server") || is_typed("store") => Origin::Argument,
        Some(ValueSource::EnvVariable) => Origin::Environment,
        _ => Origin::Default,
    };
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    log_to_stderr();

    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| {
            let typed = Typed { store: is_typed("store"), token_file: is_typed("token_file") };
            let mut session = Session::new(&cli, origin, typed)?;
            let result = runtime.block_on(command::run(&mut session, cli.command));
            // Time for the store to close its file; a blocking handler of the demo may take longer.
            runtime.shutdown_timeout(std::time::Duration::from_secs(2));
            let exit = result?;
            session.output.finish()?;
            Ok(exit)
        });
    match result {
        Ok(exit) => exit.into(),
        Err(error) => match exit::of(&error) {
            None => Exit::Done.into(),
            Some(exit) => {
                complain(&error, exit);
                exit.into()
            }
        },
    }
}

/// Help, or what is wrong with the command line. That is quoted, and a URL that stands where none belongs may hold
/// a password.
fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let is_help = !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    // A terminal that does not take this takes no error about it either.
    let _ = if is_help || !text.contains("://") {
        error.print()
    } else {
        write!(anstream::stderr(), "{}", clean::block(&clean::without_urls(&text)))
    };
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// One line with every cause, on stderr. If that fails, it cannot be said anywhere.
fn complain(error: &anyhow::Error, exit: Exit) {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    let mut text = format!("{error:#}");
    if exit == Exit::Usage && text.contains('@') {
        // An argument is quoted that may be a URL in the wrong place.
        text = clean::without_urls(&text).trim_end().to_owned();
    }
    let _ = writeln!(anstream::stderr(), "{style}error:{style:#} {}", clean::block(&text));
}

/// What the engine reports of itself, only for those who ask with RUST_LOG.
fn log_to_stderr() {
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_default_env() {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
}
