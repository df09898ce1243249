//! Starts the one server that all programs are measured on, and says where it is: its URL, its process id and its
//! version, a line each. For every line of its input it empties the server, makes it forget scripts and answers with a
//! line. It stops when its input ends. Its argument says what it persists: `everysec` or `nothing`.

use std::io::{self, BufRead};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use windlass_store_testkit::servers::{Aof, RedisServer, RedisSettings};

fn main() -> ExitCode {
    // No rewrite of the append-only file begins in the middle of a measurement.
    let settings = RedisSettings::default().set("auto-aof-rewrite-percentage", 0);
    let settings = match std::env::args().nth(1).as_deref() {
        Some("everysec") => settings.aof(Aof::Everysec),
        Some("nothing") => settings,
        _ => {
            eprintln!("error: say what the server persists: everysec or nothing");
            return ExitCode::FAILURE;
        }
    };
    let server = match RedisServer::try_start(&settings) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let version = server.info("redis_version").unwrap_or_else(|| "of unknown version".into());
    println!("{}\n{}\n{version}", server.url(), server.pid());
    for _line in io::stdin().lock().lines().map_while(Result::ok) {
        make_fresh(&server);
        println!("fresh");
    }
    ExitCode::SUCCESS
}

fn make_fresh(server: &RedisServer) {
    server.command(&["FLUSHALL", "SYNC"]);
    server.command(&["SCRIPT", "FLUSH", "SYNC"]);
    server.command(&["MEMORY", "PURGE"]);
    if is_set(server, "aof_enabled") {
        server.command(&["BGREWRITEAOF"]);
        while ["aof_rewrite_in_progress", "aof_rewrite_scheduled"].iter().any(|name| is_set(server, name)) {
            // The server does not tell when it has ended.
            sleep(Duration::from_millis(10));
        }
    }
}

fn is_set(server: &RedisServer, name: &str) -> bool {
    server.info(name).as_deref() == Some("1")
}
