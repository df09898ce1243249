//! The arguments of `serve`, `tokens` and `audit`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use windlass::server::Role;
use windlass_core::Name;

use super::examples::server as examples;
use super::parse;

/// Whether requests need a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthArg {
    /// If the store has tokens, or other machines can reach the server
    Auto,
    /// Always
    Tokens,
    /// Never; only where no other machine can reach the server
    None,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 for any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", env = "WINDLASS_LISTEN")]
    pub(crate) listen: SocketAddr,
    /// A host name under which it is reached, beside localhost; can be given several times
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Whether requests need a token
    #[arg(long, value_enum, default_value_t = AuthArg::Auto)]
    pub(crate) auth: AuthArg,
    /// The file with the certificate and those above it, in PEM form: serves https
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The file with the key of the certificate, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Leave it to workers to keep the store in order
    #[arg(long)]
    pub(crate) no_upkeep: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// Make a token, and print its text: it is not kept and cannot be shown again
    #[command(after_help = examples::CREATE)]
    Create(TokenCreateArgs),
    /// List the tokens that hold
    #[command(after_help = examples::LIST)]
    List,
    /// Revoke a token; servers heed it within seconds
    #[command(after_help = examples::REVOKE)]
    Revoke {
        /// The id, as the list shows it
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// Whose it is; the audit shows it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What it permits: viewer (look), operator (also enqueue and change jobs and queues), admin (all)
    #[arg(long, value_name = "ROLE", default_value = "viewer")]
    pub(crate) role: Role,
    /// Only for this queue; can be given several times
    #[arg(long = "queue", value_name = "NAME")]
    pub(crate) queues: Vec<Name>,
    /// How long it holds [default: until it is revoked]
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    pub(crate) ttl: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    /// Begin after this one, as the page before says
    #[arg(long, value_name = "CURSOR", value_parser = parse::record_key)]
    pub(crate) after: Option<windlass_core::record::RecordKey>,
}
