//! The table of SQLSTATEs.

use windlass_core::{StoreError, StoreErrorKind};

use super::*;

fn error(code: &str, effect: Effect) -> StoreError {
    let (code, text, meaning) = (code.to_owned(), "said".to_owned(), meaning(code));
    ServerError { code, text, meaning, is_last: false }.into_error(effect)
}

#[test]
fn what_the_server_takes_back_is_unavailable_for_reads_and_writes() {
    for code in [
        "40001", "40P01", "40002", "55P03", "57014", "57P01", "57P02", "57P03", "57P05", "53000", "53100",
        "53200", "53300", "25006", "25P02", "25P03", "58000", "58030",
    ] {
        assert_eq!(error(code, Effect::Write).kind(), StoreErrorKind::Unavailable, "{code}");
        assert_eq!(error(code, Effect::Read).kind(), StoreErrorKind::Unavailable, "{code}");
    }
}

#[test]
fn what_is_not_known_is_unknown_for_writes_only() {
    for code in ["08000", "08003", "08006", "08P01", "40003"] {
        assert_eq!(error(code, Effect::Write).kind(), StoreErrorKind::Unknown, "{code}");
        assert_eq!(error(code, Effect::Read).kind(), StoreErrorKind::Unavailable, "{code}");
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
        let error = error(code, Effect::Write);
        assert_eq!(error.kind(), StoreErrorKind::Fatal, "{code}");
        assert!(error.to_string().contains(advice), "{code}: {error}");
    }
}

#[test]
fn a_name_is_given_up_only_if_the_connection_goes_on() {
    let said = |code: &str, is_last| {
        let (code, text, meaning) = (code.to_owned(), String::new(), meaning(code));
        Fault::from(ServerError { code, text, meaning, is_last })
    };
    assert!(is_misnamed(&said("26000", false)) && is_misnamed(&said("08P01", false)));
    assert!(!is_misnamed(&said("08P01", true)), "a pooler has lost its server");
    assert!(!is_misnamed(&said("42P01", false)));
    assert!(spoils(&said("08P01", true)) && spoils(&Fault::broken("")) && !spoils(&said("42P01", false)));
}
