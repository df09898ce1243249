//! URLs that are taken, URLs that are refused, and what is never shown of either.

use tokio_postgres::config::Host;

use super::*;
use crate::options::Listen;

fn place(url: &str) -> String {
    parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).place()
}

#[test]
fn every_form_of_url_names_its_place() {
    assert_eq!(place("postgres://app@db.example/jobs"), "db.example:5432/jobs windlass");
    assert_eq!(place("postgresql://app:secret@db.example:6000/jobs?schema=s_1"), "db.example:6000/jobs s_1");
    assert_eq!(place("postgres://app@a:1,b,[::1]:3/jobs"), "a:1,b:5432,[::1]:3/jobs windlass");
    assert_eq!(place("postgres://app@%2Frun%2Fpg/jobs"), "/run/pg:5432/jobs windlass");
    assert_eq!(place("postgres:///jobs?host=/run/pg&port=6000&user=app"), "/run/pg:6000/jobs windlass");
    assert_eq!(place("postgres://app@db.example"), "db.example:5432/app windlass");
}

#[test]
fn user_and_password_are_decoded_wherever_they_stand() {
    let options = parse("postgres://a%40b:p%2F%3f%25@h/d").unwrap();
    assert_eq!(options.config.get_user(), Some("a@b"));
    assert_eq!(options.config.get_password(), Some(&b"p/?%"[..]));
    let options = parse("postgres://h/d?user=u&password=p%26q").unwrap();
    assert_eq!(options.config.get_password(), Some(&b"p&q"[..]));
    let options = parse("postgres://u:p@q@h/d").unwrap();
    assert_eq!(options.config.get_password(), Some(&b"p@q"[..]));
    assert_eq!(options.config.get_hosts(), [Host::Tcp("h".to_owned())]);
}

#[test]
fn parameters_are_understood() {
    let options = parse(
        "postgres://h/d?pool=20&statement_timeout=500ms&lock_timeout=2s&synchronous_commit=off&listen=never\
         &migrate=never&sslmode=verify-full&sslrootcert=%2Fca%20one.pem&application_name=me&connect_timeout=3\
         &target_session_attrs=read-write&options=-c%20work_mem%3D8MB",
    )
    .unwrap();
    assert_eq!(options.pool, 20);
    assert_eq!(options.synchronous_commit, SynchronousCommit::Off);
    assert_eq!((options.listen, options.migrate), (Listen::Never, Migrate::Never));
    assert_eq!(options.ssl_mode, SslMode::VerifyFull);
    assert_eq!(options.ssl_root_cert.as_deref(), Some(std::path::Path::new("/ca one.pem")));
    assert_eq!(options.config.get_application_name(), Some("me"));
    assert_eq!(options.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
    let settings = options.server_settings();
    assert!(
        settings.starts_with("-c work_mem=8MB -c statement_timeout=500 -c lock_timeout=2000 "),
        "{settings}"
    );
    assert!(settings.contains("synchronous_commit=off"));
}

#[test]
fn a_bad_url_says_what_would_be_right() {
    for (url, right) in [
        ("sqlite://x", "postgres://user"),
        ("postgres://", "names no host"),
        ("postgres://h:port/d", "not a number from 1"),
        ("postgres://h:0/d", "not a number from 1"),
        ("postgres://[::1/d", "makes no sense"),
        ("postgres://h/d?port=1,2", "one port, or one for each"),
        ("postgres://h/%ff", "UTF-8"),
        ("postgres://h/d?schema=Jobs", "lower-case letter"),
        ("postgres://h/d?schema=pg_jobs", "pg_"),
        ("postgres://h/d?schema=1", "lower-case letter"),
        ("postgres://h/d?schema=a%22b", "lower-case letter"),
        ("postgres://h/d?schema=a234567890123456789012345678901234567890123456789", "at most 47"),
        ("postgres://h/d?pool=1", "2 to 1000"),
        ("postgres://h/d?pool=many", "2 to 1000"),
        ("postgres://h/d?statement_timeout=15", "15s or 500ms"),
        ("postgres://h/d?lock_timeout=1ms", "100ms to 1h"),
        ("postgres://h/d?connect_timeout=0", "1 to 300 seconds"),
        ("postgres://h/d?synchronous_commit=local", "synchronous_commit=on or synchronous_commit=off"),
        ("postgres://h/d?sslmode=allow", "sslmode=verify-ca or sslmode=verify-full"),
        ("postgres://h/d?sslmode=disable&sslrootcert=x", "verify-full"),
        ("postgres://h/d?listen=yes", "listen=auto or listen=never"),
        ("postgres://h/d?migrate", "migrate has no value"),
        ("postgres://h/d?sslcert=x", "unknown parameter \"sslcert\": use one of schema, pool"),
    ] {
        let error = parse(url).unwrap_err().to_string();
        assert!(error.contains(right), "{url}: {error}");
    }
}

/// However a password is misplaced, nothing that is printed shows it or a part of it.
#[test]
fn no_error_and_no_debug_shows_a_password() {
    for url in [
        "postgres://u:hunter2@h/d",
        "postgres://h/d?password=hunter2",
        "postgres://u:hunter2@h:x/d",
        "postgres://u:hunter2@h/d?schema=1",
        "postgres://u:hunter2/hunter2@h/d",
        "postgres://u:hunter2?hunter2@h/d",
        "postgres://u:hunter2@hunter2/hunter2@h/d",
        "postgres://u:12/hunter2@h/d",
        "postgres://u:x&hunter2@h/d?HUNTER2",
        "postgres://u:a@h/d?password=a&hunter2=b",
        "postgres://u:%ffhunter2@h/d",
        "mysql://u:hunter2@h/d",
    ] {
        let shown = match parse(url) {
            Ok(options) => format!("{options:?} {:#?} {} {:?}", options, options.place(), options.config),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!shown.to_lowercase().contains("hunter2"), "{url}: {shown}");
    }
}
