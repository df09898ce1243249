//! `serve`: the HTTP API of a store, until it is told to stop.

use std::path::PathBuf;

use serde::Serialize;
use windlass::server::{Access as Auth, ServeError, Server, Serving, Tls, Tokens};

use crate::args::{AuthArg, ServeArgs};
use crate::exit::{Exit, Fault};
use crate::interrupt::Interrupt;
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct Listening<'a> {
    url: &'a str,
    auth: &'static str,
}

pub(crate) async fn run(session: &mut Session, args: ServeArgs) -> anyhow::Result<Exit> {
    let tls = match (args.tls_cert, args.tls_key) {
        (Some(certificate), Some(key)) => Some(read(certificate, key).await?),
        _ => None,
    };
    let client = session.open(Access::Create).await?;
    let only_here = args.listen.ip().is_loopback() && args.hosts.is_empty();
    let auth = match args.auth {
        AuthArg::Tokens => Auth::Tokens,
        AuthArg::None => Auth::Open,
        AuthArg::Auto if Tokens::new(&client).any().await? || !only_here => Auth::Tokens,
        AuthArg::Auto => Auth::Open,
    };
    let mut interrupt = Interrupt::listen()?;
    let mut server = Server::new(&client).access(auth).hosts(args.hosts);
    if args.no_upkeep {
        server = server.without_upkeep();
    }
    let serving = match server.listen(args.listen, tls).await {
        Err(ServeError::Store(error)) => return Err(error.into()),
        Err(error @ ServeError::Listen { .. }) => return Err(error.into()),
        Err(error) => return Err(Fault::usage(error.to_string()).into()),
        Ok(serving) => serving,
    };
    said(session, &serving, auth)?;
    serving.run(interrupt.heard()).await;
    session.note("stopped");
    Ok(Exit::Done)
}

/// Reading files may wait for a disk.
async fn read(certificate: PathBuf, key: PathBuf) -> anyhow::Result<Tls> {
    let read = tokio::task::spawn_blocking(move || Tls::from_files(&certificate, &key)).await?;
    read.map_err(|error| Fault::usage(error.to_string()).into())
}

fn said(session: &mut Session, serving: &Serving, auth: Auth) -> anyhow::Result<()> {
    let url = serving.url();
    if session.output.is_json() {
        let auth = if auth == Auth::Open { "none" } else { "tokens" };
        session.output.json(&Listening { url: &url, auth })?;
        return Ok(session.output.finish()?);
    }
    session.output.line(format_args!("listening on {url}"))?;
    session.output.line(format_args!("the API is at {url}/api/v1, its description at {url}/api"))?;
    session.output.line(match auth {
        Auth::Open => "no token is needed: only this machine can reach it",
        _ => "requests need a token: send Authorization: Bearer TOKEN",
    })?;
    Ok(session.output.finish()?)
}
