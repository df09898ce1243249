//! Passwords and TLS.

use super::*;

const SECRET: &str = "hunter2";

/// All that could be printed about an error.
fn shown(error: &windlass_core::StoreError) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text} {error} {error:?}");
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn a_password_opens_the_door_and_is_never_shown() {
    let postgres = PostgresServer::start(&Settings::default().password(SECRET));
    assert_eq!(read(&open(&postgres.url()).await, "SELECT 'in'").await.unwrap(), "in");
    let elsewhere = postgres.url().replace(&format!(":{SECRET}@"), "@");
    let in_query = format!("{elsewhere}?password={SECRET}");
    assert_eq!(read(&open(&in_query).await, "SELECT 'in'").await.unwrap(), "in");

    let wrong = postgres.url().replace(SECRET, "hunter2-not");
    for url in [&wrong, &elsewhere] {
        let error = read(&open(url).await, "SELECT 'in'").await.expect_err("this is not the password");
        assert_eq!(error.kind(), StoreErrorKind::Fatal, "{error}");
        assert!(error.to_string().contains("password"), "{error}");
        assert!(!shown(&error).contains(SECRET), "{}", shown(&error));
    }

    let server = open(&in_query).await;
    let sql = format!("SELECT '{SECRET}'::int::text");
    let error = read(&server, &sql).await.expect_err("this is not a number");
    assert!(!shown(&error).contains(SECRET), "{}", shown(&error));
    postgres.kill();
    let error = read(&open(&postgres.url()).await, "SELECT 'in'").await.expect_err("no server is there");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(!shown(&error).contains(SECRET), "{}", shown(&error));
}

#[tokio::test]
async fn a_certificate_is_checked_as_far_as_the_url_says() {
    let postgres = PostgresServer::start(&Settings::default().tls());
    let other = PostgresServer::start(&Settings::default().tls());
    let base = postgres.url().replace("?sslmode=require", "");
    let (right, wrong) = (postgres.ca_path(), other.ca_path());
    let (right, wrong) = (right.display(), wrong.display());
    for url in [
        base.clone(),
        format!("{base}?sslmode=prefer"),
        format!("{base}?sslmode=require"),
        format!("{base}?sslmode=require&sslrootcert={right}"),
        format!("{base}?sslmode=verify-ca&sslrootcert={right}"),
        format!("{base}?sslmode=verify-full&sslrootcert={right}"),
        format!("{}?sslmode=verify-full&sslrootcert={right}", base.replace("127.0.0.1", "localhost")),
    ] {
        let encrypted = "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        assert_eq!(read(&open(&url).await, encrypted).await.unwrap(), "true", "{url}");
    }
    for url in [
        format!("{base}?sslmode=disable"),
        format!("{base}?sslmode=prefer&sslrootcert={wrong}"),
        format!("{base}?sslmode=require&sslrootcert={wrong}"),
        format!("{base}?sslmode=verify-ca&sslrootcert={wrong}"),
        format!("{base}?sslmode=verify-full&sslrootcert={wrong}"),
    ] {
        let error = read(&open(&url).await, "SELECT ''").await.expect_err(&url);
        assert_eq!(error.kind(), StoreErrorKind::Fatal, "{url}: {error}");
    }
    // By a name that the certificate is not for.
    let named = |mode: &str| {
        let url = base.replace("127.0.0.1", "db.example");
        let mut options =
            PostgresOptions::parse(&format!("{url}?sslmode={mode}&sslrootcert={right}")).unwrap();
        options.config.hostaddr(std::net::Ipv4Addr::LOCALHOST.into());
        options
    };
    assert_eq!(read(&open_with(&named("verify-ca")).await, "SELECT 'in'").await.unwrap(), "in");
    let error = read(&open_with(&named("verify-full")).await, "SELECT ''").await.expect_err("another name");
    assert!(error.kind() == StoreErrorKind::Fatal && error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_root_certificate_that_cannot_be_read_is_refused_when_opening() {
    let options =
        PostgresOptions::parse("postgres://h/d?sslmode=verify-full&sslrootcert=/no/such.pem").unwrap();
    let error = start(&options).await.err().expect("there is no such file");
    assert!(error.kind() == StoreErrorKind::Fatal && error.to_string().contains("/no/such.pem"), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let postgres = PostgresServer::start(&Settings::default());
    assert_eq!(read(&open(&postgres.url()).await, "SELECT 'in'").await.unwrap(), "in");
    let required = open(&format!("{}?sslmode=require", postgres.url())).await;
    let error = read(&required, "SELECT ''").await.expect_err("the server has no certificate");
    assert!(error.kind() == StoreErrorKind::Fatal && error.to_string().contains("TLS"), "{error}");
}
