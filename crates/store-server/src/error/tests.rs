//! What each fault means to a caller.

use super::*;

fn said(meaning: Meaning) -> Fault {
    let (code, text) = ("LOADING".to_owned(), "not yet".to_owned());
    ServerError { code, text, meaning, is_last: false }.into()
}

fn lost() -> Fault {
    Fault::broken("reset by peer")
}

fn down() -> Fault {
    Unreachable::passing("down").into()
}

#[test]
fn what_is_not_known_is_unknown_for_writes_only() {
    let faults: [fn() -> Fault; 5] = [
        lost,
        || Fault::Timeout(Duration::from_secs(15)),
        || down().partial(),
        || said(Meaning::Lost("the pooler lost its server")),
        || {
            let (queue, what) = (windlass_core::Name::new("q").unwrap(), "late".to_owned());
            Fault::Sick(SickQueue { queue, what, kind: StoreErrorKind::Unknown })
        },
    ];
    for fault in faults {
        assert_eq!(fault().into_error(Effect::Write).kind(), StoreErrorKind::Unknown);
        assert_eq!(fault().into_error(Effect::Read).kind(), StoreErrorKind::Unavailable);
    }
}

#[test]
fn nothing_sent_is_never_unknown() {
    for (remedy, kind) in [
        (Remedy::Wait, StoreErrorKind::Unavailable),
        (Remedy::WaitForOthers, StoreErrorKind::Unavailable),
        (Remedy::Change, StoreErrorKind::Fatal),
    ] {
        let why = Unreachable { remedy, ..Unreachable::because("cannot connect", "why") };
        assert_eq!(Fault::from(why).into_error(Effect::Write).kind(), kind, "{remedy:?}");
    }
}

#[test]
fn only_what_had_no_effect_for_certain_may_be_done_once_more() {
    for fault in [down(), said(Meaning::Passing("p")), StoreError::Address("nowhere".to_owned()).into()] {
        assert!(fault.is_rolled_back() && !fault.is_open(), "{fault:?}");
    }
    for fault in [lost(), Fault::Timeout(Duration::ZERO), down().partial(), said(Meaning::Lost("l"))] {
        assert!(!fault.is_rolled_back() && fault.is_open(), "{fault:?}");
    }
    let corrupt = Fault::Corrupt(String::new());
    assert!(!corrupt.is_rolled_back() && !corrupt.is_open(), "it says nothing about what was written");
}

#[test]
fn what_may_have_happened_is_told_before_what_did_not() {
    for fault in [down().or_worse(lost()), lost().or_worse(down())] {
        assert_eq!(fault.into_error(Effect::Write).kind(), StoreErrorKind::Unknown);
    }
    let first = down().or_worse(Unreachable::passing("other").into()).into_error(Effect::Write);
    assert!(first.to_string().contains("down"), "{first}");
}

#[test]
fn a_text_says_what_happened_and_why() {
    let refused = Unreachable::because("cannot connect to db:5432", "Connection refused");
    assert_eq!(
        StoreError::from(refused).to_string(),
        "store unavailable: cannot connect to db:5432: Connection refused"
    );
    let broken = lost().into_error(Effect::Write);
    assert_eq!(broken.to_string(), "outcome unknown: the connection broke: reset by peer");
    let lasting = Unreachable::because("no such database", "jobs").lasting();
    assert_eq!(StoreError::from(lasting).to_string(), "no such database: jobs");
    let loading = said(Meaning::Passing("the server is still loading")).into_error(Effect::Write);
    assert_eq!(loading.to_string(), "store unavailable: the server is still loading: not yet (LOADING)");
}

#[test]
fn what_a_server_says_to_a_new_connection_may_last() {
    let refused = |meaning| {
        let Fault::Server(error) = said(meaning) else { unreachable!("the server said it") };
        Unreachable::refused(&error)
    };
    assert_eq!(refused(Meaning::Lasting("wrong password")).remedy, Remedy::Change);
    assert_eq!(refused(Meaning::Passing("still loading")).what, "still loading");
    assert_eq!(refused(Meaning::Defect).what, "the server refuses the connection");
}
