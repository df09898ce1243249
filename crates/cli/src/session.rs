//! What every command shares: where its output goes and which store it works on.

use std::io::Write;
use std::path::Path;

use windlass::Client;

use crate::args::Cli;
use crate::exit::Fault;
use crate::output::{Output, clean};

/// One run of the command.
pub(crate) struct Session {
    pub(crate) output: Output,
    /// May hold a password: it is opened and never shown. What is shown is the place of the opened store.
    url: String,
    origin: Origin,
    is_quiet: bool,
}

/// Who named the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `--store` on the command line.
    Argument,
    /// `WINDLASS_STORE`.
    Environment,
    /// Neither: the default.
    Default,
}

/// What stands on the command line itself, and not in the environment only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Typed {
    pub(crate) store: bool,
    pub(crate) token_file: bool,
}

/// Which store a URL names, as far as commands care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Sqlite,
    Postgres,
    /// One behind a server, which looks after it.
    Server,
    /// Nothing that needs a schema, or nothing at all.
    Other,
}

/// Whether a store that is not there may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It must be there: looking at jobs makes no store.
    Existing,
    /// It is made if it is missing.
    Create,
}

const DEFAULT_FILE: &str = "windlass.db";

impl Session {
    pub(crate) fn new(cli: &Cli, origin: Origin, typed: Typed) -> anyhow::Result<Self> {
        if cli.server.is_some() && typed.store {
            return Err(Fault::usage("--store and --server both name a store: give one of them").into());
        }
        let url = cli.server.as_deref().or(cli.store.as_deref()).map(|url| url.trim().to_owned());
        let mut url = url.unwrap_or_else(|| format!("sqlite://{DEFAULT_FILE}"));
        match (scheme(&url), &cli.token_file) {
            (Scheme::Server, Some(file)) => url = with_token_file(&url, file),
            (Scheme::Server, None) => {}
            _ if cli.server.is_some() => {
                let text = "--server: the URL of a server begins with http:// or https://; other stores are named by --store";
                return Err(Fault::usage(text).into());
            }
            (_, Some(_)) if typed.token_file => {
                return Err(Fault::usage("--token-file is for servers: name one with --server").into());
            }
            _ => {}
        }
        Ok(Self { output: Output::new(cli.json), url, origin, is_quiet: cli.quiet })
    }

    /// The URL of the chosen store.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Which store it is.
    pub(crate) fn scheme(&self) -> Scheme {
        scheme(&self.url)
    }

    /// The URL only if it was typed for this very command. What tries a store out uses no other.
    pub(crate) fn typed_url(&self) -> Option<&str> {
        (self.origin == Origin::Argument).then_some(self.url.as_str())
    }

    /// Opens the chosen store and says on stderr where it is and what an accepted job survives.
    pub(crate) async fn open(&self, access: Access) -> anyhow::Result<Client> {
        let client = match access {
            Access::Create => windlass::open(&self.url).await?,
            Access::Existing => {
                if self.origin == Origin::Default && !Path::new(DEFAULT_FILE).exists() {
                    return Err(no_default().into());
                }
                windlass::open(existing(&self.url)).await?
            }
        };
        self.introduce(&client);
        Ok(client)
    }

    /// A note about the store that is used.
    pub(crate) fn introduce(&self, client: &Client) {
        let about = client.about();
        self.note(&format!("store: {} {} ({})", about.scheme, about.place, about.durability));
    }

    /// One line on stderr about something that could not be done, while the command goes on.
    pub(crate) fn complain(&self, text: &str) {
        let style = anstyle::AnsiColor::Red.on_default().bold();
        let _ = writeln!(anstream::stderr(), "{style}error:{style:#} {}", clean::line(text));
    }

    /// A line on stderr for people, faint, unless they asked for silence.
    pub(crate) fn note(&self, text: &str) {
        if !self.is_quiet {
            let style = anstyle::Style::new().dimmed();
            let _ = writeln!(anstream::stderr(), "{style}{}{style:#}", clean::line(text));
        }
    }
}

fn scheme(url: &str) -> Scheme {
    match url.split_once(':') {
        Some(("sqlite", _)) => Scheme::Sqlite,
        Some(("postgres" | "postgresql", _)) => Scheme::Postgres,
        Some(("http" | "https", _)) => Scheme::Server,
        _ => Scheme::Other,
    }
}

/// The URL, told not to make a file or a schema that is missing. Of two values the later one counts.
fn existing(url: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    match scheme(url) {
        Scheme::Sqlite => format!("{url}{separator}create=never"),
        Scheme::Postgres => format!("{url}{separator}migrate=never"),
        Scheme::Server | Scheme::Other => url.to_owned(),
    }
}

/// The URL of a server, with the file of the token.
fn with_token_file(url: &str, file: &Path) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    let file =
        percent_encoding::utf8_percent_encode(&file.to_string_lossy(), percent_encoding::NON_ALPHANUMERIC)
            .to_string();
    format!("{url}{separator}token_file={file}")
}

fn no_default() -> Fault {
    let file = std::path::absolute(DEFAULT_FILE).unwrap_or_else(|_| DEFAULT_FILE.into());
    Fault::store(format!(
        "there is no store at {}: name one with --store or WINDLASS_STORE, or enqueue a job to make this one",
        file.display()
    ))
}
