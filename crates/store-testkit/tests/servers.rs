//! The servers of the tests themselves: they answer, keep what was committed, and leave nothing behind.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use windlass_store_testkit::servers::{PgBouncer, PoolMode, PostgresServer, Settings};

fn is_alive(pid: u32) -> bool {
    // One that was not reaped yet has ended all the same.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

/// Runs SQL through a URL, as any client would, and answers the rows or the refusal.
fn query(url: &str, sql: &str) -> Result<String, String> {
    let output = Command::new("psql")
        .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql])
        .output()
        .expect("psql starts");
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn a_server_answers_and_leaves_nothing_behind() {
    let server = PostgresServer::start(&Settings::default().max_connections(23).set("work_mem", "7MB"));
    assert_eq!(
        query(&server.url(), "select current_user, current_setting('max_connections')").unwrap(),
        "windlass|23"
    );
    assert_eq!(server.psql("select current_user, current_setting('work_mem')"), "postgres|7MB");
    query(&server.url(), "create schema mine; create table mine.one (id int)")
        .expect("the role owns the database");

    let folder = server.psql("select current_setting('unix_socket_directories')");
    let backend: u32 = query(&server.url(), "select pg_backend_pid()").unwrap().parse().unwrap();
    let postmaster = server.pid();
    assert!(is_alive(postmaster) && Path::new(&folder).is_dir());
    drop(server);
    assert!(!is_alive(postmaster) && !is_alive(backend) && !Path::new(&folder).exists());
}

#[test]
fn what_was_committed_survives_a_kill() {
    let server = PostgresServer::start(&Settings::default().durable());
    assert_eq!(server.psql("show fsync"), "on");
    server.psql("create table kept (id int)");
    let (before, port) = (server.pid(), server.port());
    for id in 1..=3 {
        server.psql(&format!("insert into kept values ({id})"));
        server.kill();
        query(&server.url(), "select 1").expect_err("there is no server to answer");
        server.restart();
    }
    assert_eq!(server.psql("select string_agg(id::text, ',' order by id) from kept"), "1,2,3");
    assert!(server.pid() != before && !is_alive(before));
    assert_eq!(server.port(), port);
    assert!(server.log().contains("automatic recovery"), "{}", server.log());
}

#[test]
fn a_kill_takes_the_sessions_along() {
    let server = PostgresServer::start(&Settings::default());
    let mut session = Command::new("psql")
        .args(["-X", "-d", &server.url(), "-c", "select pg_sleep(600)"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let busy = "select pid from pg_stat_activity where query = 'select pg_sleep(600)'";
    let backend: u32 = until(|| server.psql(busy).parse().ok());
    server.kill();
    assert!(!is_alive(backend));
    assert!(!session.wait().unwrap().success());
    server.restart();
    assert_eq!(server.psql("select count(*) from pg_stat_activity where state = 'active'"), "1");
}

#[test]
fn the_shared_server_is_one() {
    let urls: Vec<_> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..4).map(|_| scope.spawn(|| PostgresServer::shared().url())).collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).collect()
    });
    assert!(urls.windows(2).all(|pair| pair[0] == pair[1]), "{urls:?}");
    if let Some(given) = std::env::var("DATABASE_URL").ok().filter(|given| !given.is_empty()) {
        assert_eq!(urls[0], given);
    }
    assert_eq!(PostgresServer::shared().psql("select 6 * 7"), "42");
}

#[test]
fn stop_is_orderly() {
    let server = PostgresServer::start(&Settings::default());
    server.psql("create table kept as select 1 as id");
    server.stop();
    assert!(server.log().contains("database system is shut down"), "{}", server.log());
    server.restart();
    assert_eq!(server.psql("select id from kept"), "1");
    assert!(!server.log().contains("automatic recovery"), "{}", server.log());
}

#[test]
fn a_password_is_asked_for() {
    let server = PostgresServer::start(&Settings::default().password("s:e/c'ret"));
    assert_eq!(query(&server.url(), "select 1").unwrap(), "1");
    let wrong = server.url().replace("ret@", "rot@");
    let refusal = query(&wrong, "select 1").unwrap_err();
    assert!(refusal.contains("password authentication failed"), "{refusal}");
    assert!(!format!("{server:?}").contains("ret"), "{server:?}");

    let bouncer = PgBouncer::before(&server, PoolMode::Transaction);
    assert_eq!(query(bouncer.url(), "select current_user").unwrap(), "windlass");
}

#[test]
fn tls_is_there_and_needed() {
    let server = PostgresServer::start(&Settings::default().tls());
    let (url, authority) = (server.url(), server.ca_path());
    let verified = url.replace("require", "verify-full") + &format!("&sslrootcert={}", authority.display());
    let encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    assert_eq!(query(&verified, encrypted).unwrap(), "t");
    let refusal = query(&url.replace("require", "disable"), "select 1").unwrap_err();
    assert!(refusal.contains("no encryption"), "{refusal}");
}

#[test]
fn a_pooler_lends_a_session_for_a_transaction() {
    let server = PostgresServer::start(&Settings::default());
    let bouncer = PgBouncer::before(&server, PoolMode::Transaction);
    let session = "select pg_backend_pid()";
    let first = query(bouncer.url(), session).unwrap();
    // It outlives its client, and is lent again.
    assert_eq!(query(bouncer.url(), session).unwrap(), first);
    let pid = bouncer.pid();
    bouncer.kill();
    query(bouncer.url(), session).expect_err("there is no server to answer");
    bouncer.restart();
    query(bouncer.url(), session).unwrap();
    assert!(!is_alive(pid));
}

#[test]
fn a_killed_program_leaves_no_server_behind() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_test-servers"))
        .env_remove("DATABASE_URL")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let url = line.strip_prefix("DATABASE_URL=").unwrap();
    let superuser = url.replace("windlass@", "postgres@");
    let folder = query(&superuser, "select current_setting('unix_socket_directories')").unwrap();
    let postmaster = std::fs::read_to_string(format!("{folder}/cluster/postmaster.pid")).unwrap();
    let postmaster: u32 = postmaster.lines().next().unwrap().parse().unwrap();
    assert!(is_alive(postmaster));

    program.kill().unwrap();
    program.wait().unwrap();
    until(|| (!is_alive(postmaster) && !Path::new(&folder).exists()).then_some(()));
}

/// Other programs do not tell when they have come so far.
fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "that takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}
