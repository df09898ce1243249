//! Starts the one durable server that all programs are measured on, and says where it is: its URL, the process id
//! of its postmaster and its version, a line each. For every line of its input it makes all databases anew, writes
//! out what is left of the last measurement and answers with a line. It stops when its input ends.

use std::io::{self, BufRead};
use std::process::ExitCode;

use windlass_store_testkit::servers::{PostgresServer, Settings};

/// One for each work that needs an empty place.
const DATABASES: [&str; 4] = ["bulk", "whole", "single", "idle"];

fn main() -> ExitCode {
    // Commits as durable as PostgreSQL makes them by itself. Memory and the room between checkpoints are what a
    // small production server has, so that none begins in the middle of a measurement.
    let settings = Settings::default()
        .durable()
        .set("shared_buffers", "512MB")
        .set("max_wal_size", "8GB")
        .set("checkpoint_timeout", "30min");
    let server = match PostgresServer::try_start(&settings) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let url = server.url();
    let (root, _) = url.rsplit_once('/').expect("a URL names a database");
    println!("{root}\n{}\n{}", server.pid(), server.psql("SHOW server_version"));
    for _line in io::stdin().lock().lines().map_while(Result::ok) {
        for database in DATABASES {
            server.psql(&format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)"));
            server.psql(&format!("CREATE DATABASE {database} OWNER windlass"));
        }
        server.psql("CHECKPOINT");
        println!("fresh");
    }
    ExitCode::SUCCESS
}
