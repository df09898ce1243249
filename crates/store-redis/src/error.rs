//! What Redis and its driver say, as faults of the store.
//!
//! [`meaning`] is the one table of what servers say. No text here holds a password.

use std::error::Error as StdError;

use redis::RedisError;
pub(crate) use windlass_store_server::error::{Effect, Fault, Meaning, Remedy, ServerError, Unreachable};

/// An error of a server, as the driver hands it on.
pub(crate) fn server_error(error: &redis::ServerError) -> ServerError {
    said(error.code(), error.details().unwrap_or_default())
}

/// An error as a server says it: a word in capitals, and a text. A server that does not know a command repeats its
/// arguments, and a password may be among them.
pub(crate) fn said(code: &str, text: &str) -> ServerError {
    let text = text.split(", with args beginning with").next().unwrap_or_default();
    let (code, text) = within_script(code, text).or_else(|| aborted(code, text)).unwrap_or((code, text));
    let meaning = meaning(code, text);
    ServerError { code: code.to_owned(), text: text.to_owned(), meaning, is_last: false }
}

/// Up to version 6.2 an error of a command inside a script stands in the middle of the script's own.
fn within_script<'t>(code: &str, text: &'t str) -> Option<(&'t str, &'t str)> {
    if code != "ERR" || !text.contains("running script") {
        return None;
    }
    text.rsplit(": ").find_map(|part| {
        let (code, text) = part.trim_start_matches('-').split_once(' ')?;
        let is_code = code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
        is_code.then_some((code, text))
    })
}

/// Why a transaction that was queued is not run.
fn aborted<'t>(code: &str, text: &'t str) -> Option<(&'t str, &'t str)> {
    let (_, why) = text.split_once("because of: ").filter(|_| code == "EXECABORT")?;
    why.split_once(' ')
}

/// Whether it often passes within moments: the call itself tries again for a while.
pub(crate) fn is_brief(error: &ServerError) -> bool {
    const BRIEF: [&str; 6] = ["LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "BUSY"];
    BRIEF.contains(&error.code.as_str())
}

const NO_PASSWORD: &str = "the server has no password for this user and lets everyone in, and the URL has one: \
    leave the password out of the URL, or give the server one (requirepass, or ACL SETUSER)";

fn meaning(code: &str, text: &str) -> Meaning {
    match code {
        "LOADING" => Meaning::Passing("the server is still loading its content"),
        "TRYAGAIN" => Meaning::Passing("a slot of the cluster is being moved"),
        "CLUSTERDOWN" => Meaning::Passing("the cluster does not serve all slots"),
        "MASTERDOWN" => Meaning::Passing("the replica has lost its primary"),
        "READONLY" => Meaning::Passing("the server is a read-only replica"),
        "BUSY" => Meaning::Passing("the server is busy with a long script"),
        "OOM" => Meaning::Passing("refused: the server's memory is full (maxmemory)"),
        "MISCONF" => Meaning::Passing("the server cannot write its files and takes no writes"),
        "NOREPLICAS" => Meaning::Passing("the server has fewer replicas than it wants for a write"),
        "UNBLOCKED" => Meaning::Passing("the server changed its role meanwhile"),
        // Followed by the call itself, as far as that helps.
        "MOVED" | "ASK" => Meaning::Passing("the cluster is moving slots around"),
        "NOAUTH" => Meaning::Lasting("the server wants a password: use redis://user:password@host"),
        "WRONGPASS" => Meaning::Lasting("the server refuses the user or the password"),
        "NOPERM" => Meaning::Lasting("the user lacks a permission"),
        "WRONGTYPE" => Meaning::Corrupt("a key holds another kind of content"),
        "ERR" if text.contains("max number of clients") => {
            Meaning::Passing("the server has no connection left")
        }
        "ERR" if text.contains("without any password configured") => Meaning::Lasting(NO_PASSWORD),
        "ERR" if text.contains("DB index is out of range") => {
            Meaning::Lasting("the server has no database of this number")
        }
        "ERR" if text.contains("SELECT is not allowed in cluster mode") => {
            Meaning::Lasting("this is a node of a Cluster, which has only database 0: leave the database out")
        }
        "DENIED" => {
            Meaning::Lasting("the server is in protected mode: give it a password, or let it listen locally")
        }
        // CROSSSLOT, NOTBUSY, NOSCRIPT, EXECABORT, errors of scripts.
        _ => Meaning::Defect,
    }
}

/// An error of the driver with its causes.
pub(crate) fn chain(error: &RedisError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
