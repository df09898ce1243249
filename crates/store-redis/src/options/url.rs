//! Reads URLs as other Redis clients do, plus the store's own parameters.
//!
//! No error quotes what stands before the parameters, nor a value that may be a secret: a password that was not
//! encoded can end up anywhere.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use windlass_core::StoreError;
use windlass_store_server::options::{LISTEN, address, one_of, unknown, valueless};

use super::{Encryption, Eviction, Layout, RedisOptions, Target};

const FORM: &str = "use redis://user:password@host:port/database, rediss:// for TLS, redis+unix:///path for a local \
    socket, redis-cluster://host:port,host:port for a Cluster, or redis-sentinel://host:port,host:port/primary";
const ENCODE: &str = "write @ / ? & and % in user, password and values as %40 %2F %3F %26 and %25";
const KNOWN: &str =
    "namespace, timeout, connect_timeout, wait, wait_timeout, eviction, listen, ca_file, user, password, db";

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// What stands after `://`.
#[derive(Clone, Copy)]
enum Form {
    Host,
    Socket,
    Cluster,
    Sentinel,
}

pub(super) fn parse(url: &str) -> Result<RedisOptions, StoreError> {
    let known = url.split_once("://").and_then(|(word, rest)| Some((form(word)?, rest)));
    let ((form, encryption), rest) = known.ok_or_else(|| address(format!("this is no Redis URL: {FORM}")))?;
    let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let mut options = match form {
        Form::Socket => socket(rest)?,
        Form::Host | Form::Cluster | Form::Sentinel => hosts(rest, form)?,
    };
    options.encryption = encryption;
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        options = set(options, parameter)?;
    }
    check(options)
}

fn form(word: &str) -> Option<(Form, Encryption)> {
    Some(match word {
        "redis" => (Form::Host, Encryption::Plain),
        "rediss" => (Form::Host, Encryption::Tls),
        "redis-cluster" => (Form::Cluster, Encryption::Plain),
        "rediss-cluster" => (Form::Cluster, Encryption::Tls),
        "redis-sentinel" => (Form::Sentinel, Encryption::Plain),
        "rediss-sentinel" => (Form::Sentinel, Encryption::Tls),
        "redis+unix" | "unix" => (Form::Socket, Encryption::Plain),
        _ => return None,
    })
}

/// `/path`, or `user:password@/path`.
fn socket(rest: &str) -> Result<RedisOptions, StoreError> {
    let refused = || address(format!("the URL names no socket: use redis+unix:///path; {ENCODE}"));
    let (credentials, path) = match rest.split_once("@/") {
        Some((credentials, path)) => (Some(credentials), format!("/{path}")),
        None => (None, rest.to_owned()),
    };
    if !path.starts_with('/') || path.contains('@') || path.len() < 2 {
        return Err(refused());
    }
    let target = Target::Unix(PathBuf::from(decoded(&path)?.into_owned()));
    with_credentials(RedisOptions::new(vec![target], Layout::Found), credentials)
}

/// `user:password@host:port,host:port/database`; after sentinels stands `/primary` or `/primary/database`.
fn hosts(rest: &str, form: Form) -> Result<RedisOptions, StoreError> {
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // A password with a raw / would be taken for a database, and shown.
    if path.contains('@') {
        return Err(address(format!("an @ after the host: {ENCODE}")));
    }
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (Some(credentials), hosts),
        None => (None, authority),
    };
    let port = if matches!(form, Form::Sentinel) { SENTINEL_PORT } else { PORT };
    let hosts = hosts.split(',').filter(|host| !host.is_empty()).map(|host| target(host, port));
    let mut targets = hosts.collect::<Result<Vec<_>, _>>()?;
    let (mut sentinels, mut database) = (Vec::new(), path.trim_start_matches('/'));
    if matches!(form, Form::Sentinel) {
        let name;
        (name, database) = database.split_once('/').unwrap_or((database, ""));
        if name.is_empty() {
            let text = "the URL names no primary: use redis-sentinel://host:port,host:port/primary";
            return Err(address(text));
        }
        sentinels = std::mem::replace(&mut targets, vec![Target::Primary(decoded(name)?.into_owned())]);
        if sentinels.is_empty() {
            return Err(address(format!("the URL names no host: {FORM}")));
        }
    }
    let layout = if matches!(form, Form::Cluster) { Layout::Cluster } else { Layout::Found };
    let mut options = with_credentials(RedisOptions::new(targets, layout), credentials)?;
    options.sentinels = sentinels;
    if !database.is_empty() {
        options.database = database_number(database)?;
    }
    Ok(options)
}

fn with_credentials(
    mut options: RedisOptions,
    credentials: Option<&str>,
) -> Result<RedisOptions, StoreError> {
    if let Some(credentials) = credentials {
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let (user, password) = (decoded(user)?, decoded(password)?);
        let given = |text: Cow<'_, str>| (!text.is_empty()).then(|| text.into_owned());
        (options.user, options.password) = (given(user), given(password));
    }
    Ok(options)
}

/// One of `name`, `name:port`, `[address]:port`.
fn target(text: &str, default_port: u16) -> Result<Target, StoreError> {
    let refused = || address(format!("a host of the URL makes no sense: {FORM}"));
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(refused)?;
            (host, port.strip_prefix(':').or(port.is_empty().then_some("")).ok_or_else(refused)?)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    if host.is_empty() {
        return Err(refused());
    }
    let port =
        match port {
            "" => default_port,
            port => port.parse().ok().filter(|&port| port > 0).ok_or_else(|| {
                address(format!("the port is not a number from 1 to 65535: {FORM}; {ENCODE}"))
            })?,
        };
    Ok(Target::Tcp(decoded(host)?.into_owned(), port))
}

fn database_number(text: &str) -> Result<u32, StoreError> {
    let refused = || address(format!("the database is not a number from 0 on: use /0; {ENCODE}"));
    text.parse().ok().filter(|&number| number < 1 << 20).ok_or_else(refused)
}

fn decoded(text: &str) -> Result<Cow<'_, str>, StoreError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map_err(|_| address(format!("the URL has bytes that are no UTF-8: {ENCODE}")))
}

fn set(mut options: RedisOptions, parameter: &str) -> Result<RedisOptions, StoreError> {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let value = decoded(value)?;
    let value = value.as_ref();
    if value.is_empty() {
        return Err(valueless(name, KNOWN));
    }
    match name {
        "user" => options.user = Some(value.to_owned()),
        "password" => options.password = Some(value.to_owned()),
        "db" => options.database = database_number(value)?,
        _ => return set_own(options, name, value),
    }
    Ok(options)
}

fn set_own(options: RedisOptions, name: &str, value: &str) -> Result<RedisOptions, StoreError> {
    Ok(match name {
        "namespace" => options.namespace(value)?,
        "timeout" => options.timeout(time(value))?,
        "connect_timeout" => options.connect_timeout(time(value))?,
        "wait" => options.wait(value.parse().unwrap_or(u32::MAX))?,
        "wait_timeout" => options.wait_timeout(time(value))?,
        "eviction" => {
            let known = [("refuse", Eviction::Refuse), ("allow", Eviction::Allow)];
            options.eviction(one_of(name, value, &known)?)
        }
        "listen" => options.listen(one_of(name, value, &LISTEN)?),
        "ca_file" => options.ca_file(value),
        _ => return Err(unknown(name, KNOWN)),
    })
}

fn check(options: RedisOptions) -> Result<RedisOptions, StoreError> {
    if options.targets.is_empty() {
        return Err(address(format!("the URL names no host: {FORM}")));
    }
    if options.layout == Layout::Found && options.targets.len() > 1 {
        return Err(address("several hosts make a Cluster: use redis-cluster://host:port,host:port"));
    }
    if options.layout == Layout::Cluster && options.database != 0 {
        return Err(address("a Cluster has only database 0: leave the database out, and use namespace"));
    }
    if options.user.is_some() && options.password.is_none() {
        return Err(address(format!("a user without a password: {FORM}")));
    }
    if options.encryption == Encryption::Plain && options.ca_file.is_some() {
        return Err(address("ca_file is of no use without TLS: use rediss://"));
    }
    Ok(options)
}

/// What is no time is out of bounds, and refused as that.
fn time(value: &str) -> Duration {
    humantime::parse_duration(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
