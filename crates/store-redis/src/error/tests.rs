//! The table of what servers say.

use windlass_core::StoreErrorKind;

use super::*;

fn error(code: &str, text: &str) -> StoreError {
    Fault::from(Said::new(code, text)).into_error(Effect::Write)
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
    assert_eq!(Said::new("ERR", old).code, "OOM");
    let wrong = "Error running script (call to f_8b0c4d): @user_script:1: WRONGTYPE Operation against a key";
    assert_eq!(Said::new("ERR", wrong).code, "WRONGTYPE");
    let own = "Error running script (call to f_8b0c4d): @user_script:1: user_script:1: attempt to index a nil value";
    assert_eq!(Said::new("ERR", own).code, "ERR");
}

#[test]
fn what_nobody_knows_is_unknown_for_writes_only() {
    let faults: [fn() -> Fault; 4] = [
        || Fault::Lost("broken pipe".to_owned()),
        || Fault::Behind("0 of 1 replicas".to_owned()),
        || Fault::Timeout(Duration::from_secs(15)),
        || Fault::Half(Box::new(Away::passing("down").into())),
    ];
    for fault in faults {
        assert_eq!(fault().into_error(Effect::Write).kind(), StoreErrorKind::Unknown);
        assert_eq!(fault().into_error(Effect::Read).kind(), StoreErrorKind::Unavailable);
    }
}

#[test]
fn what_may_have_happened_is_told_before_what_did_not() {
    let away = || Fault::from(Away::passing("down"));
    let lost = || Fault::Lost("broken pipe".to_owned());
    for fault in [away().or_worse(lost()), lost().or_worse(away())] {
        assert_eq!(fault.into_error(Effect::Write).kind(), StoreErrorKind::Unknown);
    }
    let first = away().or_worse(Away::passing("other").into()).into_error(Effect::Write);
    assert!(first.to_string().contains("down"), "{first}");
}

#[test]
fn arguments_that_a_server_repeats_are_left_out() {
    let text = "unknown command 'AUTH', with args beginning with: 'default' 'hunter2' ";
    assert_eq!(Said::new("ERR", text).to_string(), "ERR unknown command 'AUTH'");
}

#[test]
fn nothing_sent_is_never_unknown() {
    for (is_lasting, kind) in [(false, StoreErrorKind::Unavailable), (true, StoreErrorKind::Fatal)] {
        let away = Away { is_lasting, ..Away::because("away", "why") };
        assert_eq!(Fault::from(away).into_error(Effect::Write).kind(), kind);
    }
}
