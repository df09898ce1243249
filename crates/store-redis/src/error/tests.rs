//! The table of what servers say.

use windlass_core::{StoreError, StoreErrorKind};

use super::*;

fn error(code: &str, text: &str) -> StoreError {
    said(code, text).into_error(Effect::Write)
}

#[test]
fn what_a_server_says_is_never_unknown() {
    for (code, text, hint) in [
        ("LOADING", "Redis is loading the dataset in memory", "loading"),
        ("READONLY", "You can't write against a read only replica.", "read-only"),
        ("MASTERDOWN", "Link with MASTER is down", "lost its primary"),
        ("CLUSTERDOWN", "The cluster is down", "slots"),
        ("CLUSTERDOWN", "Hash slot not served", "slots"),
        ("TRYAGAIN", "Multiple keys request during rehashing of slot", "being moved"),
        ("BUSY", "Redis is busy running a script.", "long script"),
        (
            "OOM",
            "command not allowed when used memory > 'maxmemory'.",
            "refused: the server's memory is full",
        ),
        ("MISCONF", "Redis is configured to save RDB snapshots", "takes no writes"),
        ("NOREPLICAS", "Not enough good replicas to write.", "fewer replicas"),
        ("MOVED", "3999 127.0.0.1:6381", "moving slots"),
        ("ASK", "3999 127.0.0.1:6381", "moving slots"),
        ("ERR", "max number of clients reached", "no connection left"),
    ] {
        let error = error(code, text);
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{code}");
        assert!(error.to_string().contains(hint), "{code}: {error}");
    }
}

#[test]
fn what_stays_is_fatal_and_says_what_to_do() {
    for (code, text, hint) in [
        ("NOAUTH", "Authentication required.", "wants a password"),
        ("WRONGPASS", "invalid username-password pair or user is disabled.", "the user or the password"),
        ("NOPERM", "this user has no permissions to run the 'evalsha' command", "lacks a permission"),
        ("ERR", "DB index is out of range", "no database of this number"),
        ("ERR", "SELECT is not allowed in cluster mode", "only database 0"),
        (
            "ERR",
            "AUTH <password> called without any password configured for the default user.",
            "leave the password out",
        ),
        ("DENIED", "Redis is running in protected mode", "protected mode"),
        ("WRONGTYPE", "Operation against a key holding the wrong kind of value", "another kind of content"),
        ("CROSSSLOT", "Keys in request don't hash to the same slot", "internal"),
        ("NOSCRIPT", "No matching script.", "internal"),
        ("ERR", "user_script:1: attempt to index a nil value script: 5b9f", "internal"),
    ] {
        let error = error(code, text);
        assert_eq!(error.kind(), StoreErrorKind::Fatal, "{code} {text}");
        assert!(error.to_string().contains(hint), "{code}: {error}");
    }
}

#[test]
fn an_error_inside_a_script_is_the_same_in_old_servers() {
    let old = "Error running script (call to f_8b0c4d): @user_script:1: @user_script: 1: -OOM command not allowed \
        when used memory > 'maxmemory'.";
    assert_eq!(said("ERR", old).code, "OOM");
    let wrong = "Error running script (call to f_8b0c4d): @user_script:1: WRONGTYPE Operation against a key";
    assert_eq!(said("ERR", wrong).code, "WRONGTYPE");
    let own = "Error running script (call to f_8b0c4d): @user_script:1: user_script:1: attempt to index a nil value";
    assert_eq!(said("ERR", own).code, "ERR");
}

#[test]
fn a_transaction_that_is_not_run_says_why() {
    let text = "Transaction discarded because of: READONLY You can't write against a read only replica.";
    assert_eq!(said("EXECABORT", text).code, "READONLY");
    assert_eq!(said("EXECABORT", "Transaction discarded because of previous errors.").code, "EXECABORT");
    // As scripts of ours hand it on.
    let old =
        "Error running script: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(said("ERR", old).code, "OOM");
}

#[test]
fn arguments_that_a_server_repeats_are_left_out() {
    let text = "unknown command 'AUTH', with args beginning with: 'default' 'hunter2' ";
    assert_eq!(said("ERR", text).to_string(), "unknown command 'AUTH' (ERR)");
}
