//! What makes jobs the same, and for how long.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn digest(unique: &Unique, kind: &str, payload: &str) -> Digest {
    unique.of(kind, payload.as_bytes(), Due::After(SECOND)).unwrap().0.digest
}

#[test]
fn what_is_the_same_has_one_key() {
    let (a, b) = (r#"{"account":7,"page":1}"#, r#"{ "page":2, "account":7 }"#);
    let fields = Unique::fields(["account"]);
    assert_eq!(digest(&fields, "export", a), digest(&fields, "export", b));
    assert_ne!(digest(&fields, "export", a), digest(&fields, "import", a), "kinds are apart");
    let across = fields.across_kinds();
    assert_eq!(digest(&across, "export", a), digest(&across, "import", b));
    let payload = Unique::payload();
    assert_eq!(digest(&payload, "k", a), digest(&payload, "k", r#"{"page":1,"account":7}"#));
    assert_ne!(digest(&payload, "k", a), digest(&payload, "k", b));
    assert_eq!(digest(&payload, "k", "not JSON"), digest(&payload, "k", "not JSON"));
    let fields = |fields: [&str; 2]| digest(&Unique::fields(fields), "k", r#"{"a":"1","b":"2"}"#);
    assert_ne!(fields(["a", "b"]), fields(["b", "a"]));
    assert_ne!(digest(&Unique::key("ab"), "c", ""), digest(&Unique::key("a"), "bc", ""));
}

/// Keys are stored, and programs of two versions must agree about them.
#[test]
fn keys_are_as_ever() {
    let is = |unique: Unique, payload: &str| format!("{:?}", digest(&unique, "k", payload));
    let payload = r#"{"c":{"x":true},"b":"\"\n","a":[1,2.5,null]}"#;
    assert_eq!(is(Unique::payload(), payload), "40d63ba4499ce744dd2fe9057bc67406");
    assert_eq!(is(Unique::fields(["b", "c"]), payload), "233b0ac12ab6742bb18e8a7c284d5cd7");
    assert_eq!(is(Unique::key("pi_42"), payload), "b01cd8f4f7f98f226cced98ae5dd5b17");
    assert_eq!(is(Unique::payload().across_kinds(), "not JSON"), "0c406a3d36fc53843e06236f805120a9");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |unique: Unique, payload: &str| unique.of("k", payload.as_bytes(), Due::Now).unwrap_err();
    assert_eq!(refused(Unique::key(""), ""), UniqueInvalid::NoKey);
    assert_eq!(refused(Unique::fields([""; 0]), "{}"), UniqueInvalid::NoKey);
    assert_eq!(refused(Unique::fields(["a"]), "[1]"), UniqueInvalid::NoFields);
    assert_eq!(refused(Unique::key("a").for_window(Duration::ZERO), ""), UniqueInvalid::NoWindow);
    assert_eq!(refused(Unique::key("a").for_slot(Duration::ZERO), ""), UniqueInvalid::NoWindow);
    assert_eq!(refused(Unique::key("a").debounce(None), ""), UniqueInvalid::NoDelay);
    let debounced = Unique::key("a").debounce(Some(SECOND));
    assert_eq!(debounced.of("k", b"", Due::After(2 * SECOND)), Err(UniqueInvalid::ShortWait));
    assert!(debounced.of("k", b"", Due::After(SECOND)).is_ok());
}

#[test]
fn lifetimes_read_back() {
    let window = Duration::from_micros(5);
    for lifetime in [Lifetime::Start, Lifetime::End, Lifetime::Window(window), Lifetime::Slot(SECOND)] {
        assert_eq!(lifetime.to_string().parse(), Ok(lifetime));
    }
    assert!("for ever".parse::<Lifetime>().is_err() && "slot x".parse::<Lifetime>().is_err());
}

#[test]
fn slots_end_for_all_at_once() {
    let free = |micros| Lifetime::Slot(SECOND).free_at(Timestamp::from_micros(micros)).unwrap().as_micros();
    assert_eq!((free(0), free(999_999), free(1_000_000)), (1_000_000, 1_000_000, 2_000_000));
    assert_eq!(free(-1), 0);
    assert_eq!(free(i64::MAX), i64::MAX);
}

#[test]
fn keys_are_free_when_their_time_is_over() {
    let ends = |lifetime: Lifetime| {
        [Some(State::Ready), Some(State::Running), Some(State::Dead), None].map(|to| lifetime.ends_with(to))
    };
    assert_eq!(ends(Lifetime::Start), [false, true, true, true]);
    assert_eq!(ends(Lifetime::End), [false, false, true, true]);
    assert_eq!(ends(Lifetime::Window(SECOND)), [false; 4]);
}

#[test]
fn a_debounced_job_waits_no_longer_than_its_maximum() {
    let (accepted, due) = (Timestamp::from_micros(100), Timestamp::from_micros(2_000_000));
    let bounded = OnConflict::Debounce { wait_max: Some(SECOND) };
    assert_eq!(bounded.due_at(accepted, due), Some(accepted.plus(SECOND)));
    assert_eq!(OnConflict::Debounce { wait_max: None }.due_at(accepted, due), Some(due));
    assert_eq!(OnConflict::Replace.due_at(accepted, due), None);
}
