//! The table of SQLSTATEs, and that no text holds a value.

use windlass_core::StoreErrorKind;

use super::*;

fn kind(code: &str, effect: Effect) -> StoreErrorKind {
    Verdict::of(code).into_error("said".to_owned(), effect).kind()
}

#[test]
fn what_the_server_takes_back_is_unavailable_for_reads_and_writes() {
    for code in [
        "40001", "40P01", "40002", "55P03", "57014", "57P01", "57P02", "57P03", "57P05", "53000", "53100",
        "53200", "53300", "25006", "25P02", "25P03", "58000", "58030",
    ] {
        assert_eq!(kind(code, Effect::Write), StoreErrorKind::Unavailable, "{code}");
        assert_eq!(kind(code, Effect::Read), StoreErrorKind::Unavailable, "{code}");
    }
}

#[test]
fn what_nobody_knows_is_unknown_for_writes_only() {
    for code in ["08000", "08003", "08006", "08P01", "40003"] {
        assert_eq!(kind(code, Effect::Write), StoreErrorKind::Unknown, "{code}");
        assert_eq!(kind(code, Effect::Read), StoreErrorKind::Unavailable, "{code}");
    }
    let timeout = || Fault::Timeout(Duration::from_secs(20));
    assert_eq!(timeout().into_error(Effect::Write).kind(), StoreErrorKind::Unknown);
    assert_eq!(timeout().into_error(Effect::Read).kind(), StoreErrorKind::Unavailable);
}

#[test]
fn only_what_had_no_effect_for_certain_may_be_done_once_more() {
    let (away, refused) = (Away::passing("down"), StoreError::Address("nowhere".to_owned()));
    assert!(Fault::from(away).is_rolled_back() && Fault::from(refused).is_rolled_back());
    let half = Fault::Half(Box::new(Away::passing("down").into()));
    for fault in [half, Fault::Timeout(Duration::from_secs(1)), Fault::Corrupt(String::new())] {
        assert!(!fault.is_rolled_back(), "{fault:?}");
    }
    for (code, is_rolled_back) in
        [("40P01", true), ("55P03", true), ("57014", true), ("08006", false), ("40003", false)]
    {
        assert_eq!(Verdict::of(code).is_rolled_back(), is_rolled_back, "{code}");
    }
}

#[test]
fn what_stays_is_fatal_and_says_what_to_do() {
    for (code, advice) in [
        ("3F000", "windlass migrate"),
        ("42P01", "windlass migrate"),
        ("42883", "windlass migrate"),
        ("42501", "privilege"),
        ("28P01", "password"),
        ("28000", "user"),
        ("3D000", "database"),
        ("XX001", "no sense"),
        ("XX000", "internal"),
        ("22P02", "internal"),
        ("23505", "internal"),
        ("42601", "internal"),
        ("", "internal"),
        ("ü", "internal"),
    ] {
        let error = Verdict::of(code).into_error("said".to_owned(), Effect::Write);
        assert_eq!(error.kind(), StoreErrorKind::Fatal, "{code}");
        assert!(error.to_string().contains(advice), "{code}: {error}");
    }
}

#[test]
fn nothing_sent_is_never_unknown() {
    let away = |reason| Away { what: "away".to_owned(), cause: Some("why".to_owned()), reason };
    for (reason, kind) in [
        (Reason::Passing, StoreErrorKind::Unavailable),
        (Reason::Full, StoreErrorKind::Unavailable),
        (Reason::Settings, StoreErrorKind::Unavailable),
        (Reason::Lasting, StoreErrorKind::Fatal),
    ] {
        let error = Fault::from(away(reason)).into_error(Effect::Write);
        assert_eq!(error.kind(), kind, "{reason:?}");
    }
}

#[test]
fn a_call_that_took_effect_before_its_rest_failed_is_unknown() {
    let half = || Fault::Half(Box::new(Away::passing("down").into()));
    assert_eq!(half().into_error(Effect::Write).kind(), StoreErrorKind::Unknown);
}
