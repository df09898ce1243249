//! Reads URLs as other PostgreSQL clients do, plus the store's own parameters.
//!
//! No error quotes what stands before the parameters, nor a value that may be a secret: a password that was not
//! encoded can end up anywhere.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::{ChannelBinding, Config, LoadBalanceHosts, TargetSessionAttrs};
use windlass_core::StoreError;
use windlass_store_server::options::{LISTEN, address, one_of, unknown, valueless};

use super::{Migrate, PostgresOptions, SslMode, SynchronousCommit};

const FORM: &str = "use postgres://user:password@host:port/database";
const ENCODE: &str = "write @ / ? & and % in user, password, database and values as %40 %2F %3F %26 and %25";
const KNOWN: &str = "schema, pool, statement_timeout, lock_timeout, synchronous_commit, listen, migrate, sslmode, \
    sslrootcert, application_name, connect_timeout, target_session_attrs, channel_binding, load_balance_hosts, \
    options, user, password, host, port, dbname";

pub(super) fn parse(url: &str) -> Result<PostgresOptions, StoreError> {
    let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let rest = rest.ok_or_else(|| address(format!("this is not a PostgreSQL URL: {FORM}")))?;
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (Some(credentials), hosts),
        // A password with a raw / or ? would be taken for a database or a parameter, and shown.
        None if rest.contains('@') => return Err(address(format!("an @ after the host: {ENCODE}"))),
        None => (None, authority),
    };
    if path.contains('@') {
        return Err(address(format!("an @ in the database: {ENCODE}")));
    }
    let mut config = Config::new();
    config.application_name("windlass").connect_timeout(PostgresOptions::CONNECT_TIMEOUT);
    config.keepalives(true).keepalives_idle(Duration::from_secs(30));
    config.keepalives_interval(Duration::from_secs(10)).keepalives_retries(3);
    if let Some(credentials) = credentials {
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        if !user.is_empty() {
            config.user(decoded(user)?);
        }
        if !password.is_empty() {
            config.password(decoded(password)?.as_bytes());
        }
    }
    for host in hosts.split(',').filter(|host| !host.is_empty()) {
        add_host(&mut config, host)?;
    }
    let database = decoded(path.trim_start_matches('/'))?;
    if !database.is_empty() {
        config.dbname(database);
    }
    let mut options = PostgresOptions::new(config);
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        options = set(options, parameter)?;
    }
    check(options)
}

fn check(options: PostgresOptions) -> Result<PostgresOptions, StoreError> {
    let config = &options.config;
    if config.get_hosts().is_empty() {
        return Err(address(format!("the URL names no host: {FORM}, or host=/folder for a local socket")));
    }
    let (hosts, ports) = (config.get_hosts().len(), config.get_ports().len());
    if ports > 1 && ports != hosts {
        return Err(address(
            "the URL has another number of ports than of hosts: use one port, or one for each",
        ));
    }
    if matches!(options.ssl_mode, SslMode::Disable) && options.ssl_root_cert.is_some() {
        return Err(address("sslrootcert is of no use with sslmode=disable: use sslmode=verify-full"));
    }
    Ok(options)
}

/// One of `name`, `name:port`, `[address]:port`, or an encoded folder with sockets.
fn add_host(config: &mut Config, text: &str) -> Result<(), StoreError> {
    let refused = || address(format!("a host of the URL makes no sense: {FORM}"));
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(refused)?;
            (host, port.strip_prefix(':').or(port.is_empty().then_some("")).ok_or_else(refused)?)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    config.host(decoded(host)?);
    config.port(if port.is_empty() { 5432 } else { port_number(port)? });
    Ok(())
}

fn port_number(text: &str) -> Result<u16, StoreError> {
    let refused = || address(format!("the port is not a number from 1 to 65535: {FORM}; {ENCODE}"));
    text.parse().ok().filter(|&port| port > 0).ok_or_else(refused)
}

fn decoded(text: &str) -> Result<Cow<'_, str>, StoreError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map_err(|_| address(format!("the URL has bytes that are no UTF-8: {ENCODE}")))
}

fn set(mut options: PostgresOptions, parameter: &str) -> Result<PostgresOptions, StoreError> {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let value = decoded(value)?;
    let value = value.as_ref();
    if value.is_empty() {
        return Err(valueless(name, KNOWN));
    }
    let config = &mut options.config;
    match name {
        "user" => config.user(value),
        "password" => config.password(value.as_bytes()),
        "dbname" => config.dbname(value),
        "host" => {
            value.split(',').fold(config, |config, host| config.host(host));
            return Ok(options);
        }
        "port" => {
            for port in value.split(',') {
                config.port(port_number(port)?);
            }
            return Ok(options);
        }
        "application_name" => config.application_name(value),
        "options" => config.options(value),
        "connect_timeout" => config.connect_timeout(seconds(value)?),
        "target_session_attrs" => config.target_session_attrs(one_of(
            name,
            value,
            &[
                ("any", TargetSessionAttrs::Any),
                ("read-write", TargetSessionAttrs::ReadWrite),
                ("read-only", TargetSessionAttrs::ReadOnly),
            ],
        )?),
        "channel_binding" => config.channel_binding(one_of(
            name,
            value,
            &[
                ("disable", ChannelBinding::Disable),
                ("prefer", ChannelBinding::Prefer),
                ("require", ChannelBinding::Require),
            ],
        )?),
        "load_balance_hosts" => config.load_balance_hosts(one_of(
            name,
            value,
            &[("disable", LoadBalanceHosts::Disable), ("random", LoadBalanceHosts::Random)],
        )?),
        _ => return set_own(options, name, value),
    };
    Ok(options)
}

fn set_own(options: PostgresOptions, name: &str, value: &str) -> Result<PostgresOptions, StoreError> {
    Ok(match name {
        "sslmode" => options.ssl_mode(one_of(
            name,
            value,
            &[
                ("disable", SslMode::Disable),
                ("prefer", SslMode::Prefer),
                ("require", SslMode::Require),
                ("verify-ca", SslMode::VerifyCa),
                ("verify-full", SslMode::VerifyFull),
            ],
        )?),
        "sslrootcert" => options.ssl_root_cert(value),
        "schema" => options.schema(value)?,
        "pool" => options.pool(value.parse().unwrap_or(0))?,
        "statement_timeout" => options.statement_timeout(time(value))?,
        "lock_timeout" => options.lock_timeout(time(value))?,
        "synchronous_commit" => {
            let known = [("on", SynchronousCommit::On), ("off", SynchronousCommit::Off)];
            options.synchronous_commit(one_of(name, value, &known)?)
        }
        "listen" => options.listen(one_of(name, value, &LISTEN)?),
        "migrate" => {
            options.migrate(one_of(name, value, &[("auto", Migrate::Auto), ("never", Migrate::Never)])?)
        }
        _ => return Err(unknown(name, KNOWN)),
    })
}

/// As other clients: a number is seconds.
fn seconds(value: &str) -> Result<Duration, StoreError> {
    let number = u64::from_str(value).map(Duration::from_secs).ok();
    let refused = || address("connect_timeout: use a time from 1 to 300 seconds, as 5 or 5s");
    let timeout = number.or_else(|| humantime::parse_duration(value).ok());
    timeout.filter(|timeout| (1..=300).contains(&timeout.as_secs())).ok_or_else(refused)
}

/// What is not a time is out of bounds, and refused as that.
fn time(value: &str) -> Duration {
    humantime::parse_duration(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
