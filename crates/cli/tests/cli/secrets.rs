//! No password is ever printed, whatever goes wrong and whatever is asked for.

use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

use crate::shell::{Shell, finish};

/// As it was chosen, and as it stands in a URL.
const SECRET: &str = "hunter2/Sesam?open&up";
const ENCODED: &str = "hunter2%2FSesam%3Fopen%26up";

/// Parts of it that may be seen nowhere.
const PARTS: [&str; 3] = ["hunter2", "Sesam", "open&up"];

/// Runs it with the URL as argument and as variable, with every log there is, and looks at all that it says.
#[track_caller]
fn see(shell: &Shell, url: &str, args: &[&str], code: i32) {
    for is_argument in [true, false] {
        let mut command = shell.command(args);
        command.env("RUST_LOG", "trace").env("RUST_BACKTRACE", "1");
        if is_argument {
            command.args(["--store", url]);
        } else {
            command.env("WINDLASS_STORE", url);
        }
        let ran = finish(&mut command);
        let said = format!("{}\n{}", ran.stdout, ran.stderr);
        for part in PARTS {
            assert!(!said.contains(part), "{args:?} {url}: {said}");
        }
        ran.exits(code);
    }
}

#[test]
fn no_password_is_printed() {
    let shell = Shell::new();
    let server = PostgresServer::start(&Settings::default().password(SECRET));
    let url = server.url();
    assert!(url.contains(ENCODED), "{url}");
    let port = server.port();
    for args in [
        &["migrate", "--dry-run"][..],
        &["migrate", "--dry-run", "--json"],
        &["migrate"],
        &["migrate", "--json"],
        &["enqueue", "k"],
        &["enqueue", "k", "--json"],
        &["jobs", "list"],
        &["queues", "--json"],
        &["workers"],
        &["prune"],
        &["--help"],
        &["migrate", "--help"],
    ] {
        see(&shell, &url, args, 0);
    }
    for (url, code) in [
        (format!("postgres://windlass:{ENCODED}@127.0.0.1:1/postgres"), 3),
        (format!("postgres://windlass:{ENCODED}@nowhere.invalid/postgres"), 3),
        (format!("postgres://windlass:{ENCODED}x@127.0.0.1:{port}/postgres"), 3),
        (format!("postgres://nobody:{ENCODED}@127.0.0.1:{port}/postgres"), 3),
        (format!("postgres://windlass:{ENCODED}@127.0.0.1:{port}/unknown"), 3),
        (format!("{url}?colour=red"), 3),
        (format!("{url}?pool=many"), 3),
        (format!("postgres://windlass:{SECRET}@127.0.0.1:{port}/postgres"), 3),
        (format!("postgres://windlass@127.0.0.1:{port}/unknown?password={ENCODED}"), 3),
        (format!("postgress://windlass:{ENCODED}@127.0.0.1:{port}/postgres"), 3),
        (format!("windlass:{ENCODED}@127.0.0.1:{port}/postgres"), 3),
        (format!("localhost/postgres?password={ENCODED}"), 3),
    ] {
        see(&shell, &url, &["jobs", "list", "--json"], code);
        see(&shell, &url, &["migrate", "--dry-run"], code);
        let mut demo = shell.command(["demo", "--store", &url]);
        let ran = finish(demo.env("RUST_LOG", "trace")).exits(code);
        assert!(!ran.stderr.contains("hunter2") && !ran.stdout.contains("hunter2"), "{ran:#?}");
    }
}

#[test]
fn no_password_of_redis_is_printed() {
    let shell = Shell::new();
    let server = RedisServer::start(&RedisSettings::default().password(SECRET));
    let (url, port) = (server.url(), server.port());
    assert!(url.contains(ENCODED), "{url}");
    for args in [&["enqueue", "k"][..], &["jobs", "list", "--json"], &["queues"], &["workers"], &["migrate"]]
    {
        see(&shell, &url, args, 0);
    }
    for url in [
        format!("redis://:{ENCODED}x@127.0.0.1:{port}"),
        format!("redis://nobody:{ENCODED}@127.0.0.1:{port}"),
        format!("redis://:{ENCODED}@127.0.0.1:1"),
        format!("redis://:{ENCODED}@nowhere.invalid"),
        format!("rediss://:{ENCODED}@127.0.0.1:{port}"),
        format!("redis-cluster://:{ENCODED}@127.0.0.1:{port}"),
        format!("redis+unix://:{ENCODED}@/nowhere/redis.sock"),
        format!("redis://:{SECRET}@127.0.0.1:{port}"),
        format!("redis://127.0.0.1:{port}?password={ENCODED}x"),
        format!("{url}?colour=red"),
        format!("{url}/many"),
    ] {
        see(&shell, &url, &["jobs", "list", "--json"], 3);
    }
}

#[test]
fn no_password_is_printed_where_no_url_belongs() {
    let shell = Shell::new();
    let url = format!("postgres://windlass:{ENCODED}@127.0.0.1/postgres");
    for args in [
        vec![url.as_str()],
        vec!["jobs", &url],
        vec!["jobs", "show", &url],
        vec!["jobs", "list", &url],
        vec!["prune", "--limit", &url],
        vec!["workers", "--stroe", &url],
        vec!["enqueue", &url],
        vec!["enqueue", "k", &url],
    ] {
        let ran = shell.run(&args).exits(2);
        assert!(ran.stderr.contains("error:"), "{ran:#?}");
        for part in PARTS {
            assert!(!ran.stdout.contains(part) && !ran.stderr.contains(part), "{args:?}: {ran:#?}");
        }
    }
}

#[test]
fn no_password_is_printed_by_what_tries_a_store_out() {
    let shell = Shell::new();
    let server = PostgresServer::start(&Settings::default().password(SECRET));
    let url = server.url();
    for (args, code) in [
        (&["demo", "--jobs", "5", "--lease", "1s"][..], 0),
        (&["bench", "--jobs", "50", "--producers", "2"], 2),
        (&["bench", "--jobs", "50", "--producers", "2", "--yes"], 0),
    ] {
        let mut command = shell.command(args);
        let ran = finish(command.args(["--store", &url]).env("RUST_LOG", "trace"));
        for part in PARTS {
            assert!(!ran.stdout.contains(part) && !ran.stderr.contains(part), "{args:?}");
        }
        ran.exits(code);
    }
}
