//! `tokens`: who may use the HTTP API.

use serde::Serialize;
use windlass::server::{NewToken, TokenView, Tokens};
use windlass_core::Name;

use crate::args::{TokenCreateArgs, TokensCommand};
use crate::exit::{Exit, Fault};
use crate::output::{cell, json, keep_whole, text};
use crate::session::{Access, Session};

#[derive(Debug, Serialize)]
struct TokenJson<'a> {
    id: &'a str,
    name: &'a str,
    role: &'static str,
    queues: &'a [Name],
    created_at: String,
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct List<'a> {
    tokens: Vec<TokenJson<'a>>,
}

#[derive(Debug, Serialize)]
struct Revoked<'a> {
    id: &'a str,
    revoked: bool,
}

impl<'a> TokenJson<'a> {
    fn of(view: &'a TokenView) -> Self {
        Self {
            id: &view.id,
            name: &view.name,
            role: view.role.as_str(),
            queues: &view.queues,
            created_at: json::instant(view.created_at),
            expires_at: view.expires_at.map(json::instant),
            token: None,
        }
    }
}

pub(crate) async fn run(session: &mut Session, command: TokensCommand) -> anyhow::Result<Exit> {
    match command {
        TokensCommand::Create(args) => create(session, args).await,
        TokensCommand::List => list(session).await,
        TokensCommand::Revoke { id } => revoke(session, &id).await,
    }
}

async fn create(session: &mut Session, args: TokenCreateArgs) -> anyhow::Result<Exit> {
    let client = session.open(Access::Create).await?;
    let mut token = NewToken::new(args.name, args.role).queues(args.queues);
    if let Some(ttl) = args.ttl {
        token = token.ttl(ttl);
    }
    let (view, secret) = Tokens::new(&client).create(token).await?;
    if session.output.is_json() {
        session.output.json(&TokenJson { token: Some(&secret), ..TokenJson::of(&view) })?;
    } else {
        session.output.line(&secret)?;
        let (id, role) = (&view.id, view.role.as_str());
        session.note(&format!("token {id} of role {role}: keep the text above, it is not shown again"));
    }
    Ok(Exit::Done)
}

async fn list(session: &mut Session) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    let tokens = Tokens::new(&client).list().await?;
    if session.output.is_json() {
        session.output.json(&List { tokens: tokens.iter().map(TokenJson::of).collect() })?;
        return Ok(Exit::Done);
    }
    if tokens.is_empty() {
        session.note("no tokens");
        return Ok(Exit::Done);
    }
    let format = session.output.format();
    let mut table = session.output.new_table(&["ID", "NAME", "ROLE", "QUEUES", "CREATED", "EXPIRES"]);
    for view in &tokens {
        let queues: Vec<&str> = view.queues.iter().map(Name::as_str).collect();
        table.add_row([
            cell(&view.id),
            cell(&view.name),
            cell(view.role.as_str()),
            cell(if queues.is_empty() { "all".to_owned() } else { queues.join(" ") }),
            cell(text::instant(view.created_at, format)),
            cell(view.expires_at.map(|at| text::instant(at, format)).unwrap_or_default()),
        ]);
    }
    keep_whole(&mut table, &[0, 2]);
    session.output.table(table)?;
    Ok(Exit::Done)
}

async fn revoke(session: &mut Session, id: &str) -> anyhow::Result<Exit> {
    let client = session.open(Access::Existing).await?;
    if !Tokens::new(&client).revoke(id).await? {
        return Err(Fault::not_found(format!("there is no token {id}: see windlass tokens list")).into());
    }
    if session.output.is_json() {
        session.output.json(&Revoked { id, revoked: true })?;
    } else {
        session.output.line(format_args!("revoked {id}"))?;
    }
    Ok(Exit::Done)
}
