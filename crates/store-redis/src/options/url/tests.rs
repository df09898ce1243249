//! URLs that are taken, those that are refused and with which words, and that no word is a secret.

use super::*;
use crate::options::Listen;

fn place(url: &str) -> String {
    RedisOptions::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).place()
}

#[test]
fn all_kinds_of_places_are_understood() {
    for (url, expected) in [
        ("redis://localhost", "localhost:6379/0 windlass"),
        ("redis://localhost:7000/3?namespace=jobs", "localhost:7000/3 jobs"),
        ("rediss://u:p@[::1]:7000", "[::1]:7000/0 windlass"),
        ("redis+unix:///run/redis.sock?db=2", "/run/redis.sock/2 windlass"),
        ("unix://u:p@/run/redis.sock", "/run/redis.sock/0 windlass"),
        ("redis-cluster://a,b:7001,[::2]:7002", "a:6379,b:7001,[::2]:7002 windlass"),
        ("rediss-cluster://:p@a", "a:6379 windlass"),
        ("redis-sentinel://:p@a,b:7/main", "a:26379,b:7/main/0 windlass"),
        ("rediss-sentinel://a/main/3", "a:26379/main/3 windlass"),
    ] {
        assert_eq!(place(url), expected);
    }
}

#[test]
fn user_password_and_parameters_are_decoded() {
    let options =
        RedisOptions::parse("rediss://a%40b:s%2Fe%3Fc@h?timeout=2s&wait=2&wait_timeout=500ms").unwrap();
    assert_eq!((options.user.as_deref(), options.password.as_deref()), (Some("a@b"), Some("s/e?c")));
    assert_eq!((options.timeout, options.wait_timeout), (Duration::from_secs(2), Duration::from_millis(500)));
    assert_eq!((options.replicas, options.encryption), (2, Encryption::Tls));
    let options = RedisOptions::parse("redis://:p@h?eviction=allow&listen=never").unwrap();
    assert_eq!((options.user, options.password.as_deref()), (None, Some("p")));
    assert_eq!((options.eviction, options.listen), (Eviction::Allow, Listen::Never));
    let options = RedisOptions::parse("redis://h?user=u&password=p&ca_file=x").map(drop).unwrap_err();
    assert!(options.to_string().contains("rediss://"), "{options}");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    for (url, hint) in [
        ("", "redis://user:password@host"),
        ("localhost:6379", "redis://user:password@host"),
        ("http://h", "redis+unix"),
        ("redis://", "names no host"),
        ("redis://h:port", "1 to 65535"),
        ("redis://h:0", "1 to 65535"),
        ("redis://h/one", "not a number"),
        ("redis://h/-1", "not a number"),
        ("redis://a,b", "redis-cluster://"),
        ("redis-cluster://a/1", "only database 0"),
        ("redis-cluster://a?db=1", "only database 0"),
        ("redis://user@h", "without a password"),
        ("redis+unix://relative", "redis+unix:///path"),
        ("redis-sentinel://a", "names no primary"),
        ("redis-sentinel:///main", "names no host"),
        ("redis-sentinel://a/main/x", "not a number"),
        ("redis://h?namespace=a:b", "namespace"),
        ("redis://h?namespace=%7Bx%7D", "namespace"),
        ("redis://h?timeout=1ms", "100ms to 1h"),
        ("redis://h?timeout=soon", "100ms to 1h"),
        ("redis://h?wait=many", "0 to 100"),
        ("redis://h?eviction=yes", "eviction=refuse or eviction=allow"),
        ("redis://h?listen=always", "listen=auto or listen=never"),
        ("redis://h?pool=3", "namespace, timeout"),
        ("redis://h?wait", "no value"),
        ("redis://h?ca_file=/x", "rediss://"),
        ("redis://[::1", "makes no sense"),
    ] {
        let error = RedisOptions::parse(url).expect_err(url);
        assert!(matches!(error, StoreError::Address(_)));
        assert!(error.to_string().contains(hint), "{url}: {error}");
    }
}

#[test]
fn no_password_is_ever_shown() {
    for url in [
        "redis://u:hunter2@h?bad=1",
        "redis://u:hunter2@h:x",
        "redis://u:hunt/er2@h",
        "redis://u:hun?ter2@h",
        "redis://u:hun&ter2@h/x",
        "redis://u:hunter2@h,i",
        "redis-cluster://u:hunter2@h/4",
        "redis+unix://u:hunter2@relative",
        "redis://h?password=hunter2&db=x",
        "redis://h?password=hunter2&hunter2",
        "redis://u:hunter2",
    ] {
        let error = RedisOptions::parse(url).expect_err(url);
        let text = format!("{error} {error:?}");
        let shown = ["hunter2", "hunt", "er2", "ter2"].iter().find(|part| text.contains(**part));
        // A word of small letters alone may be the misspelt name of a parameter.
        assert!(shown.is_none(), "{url}: {text}");
    }
    let options = RedisOptions::parse("redis://user:hunter2@h").unwrap();
    assert!(!format!("{options:?} {}", options.place()).contains("hunter2"));
}
