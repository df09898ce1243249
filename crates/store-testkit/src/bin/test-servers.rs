//! Starts the servers that tests share, prints where they are as lines of the form `NAME=value`, then an empty
//! line, and stops them when its input ends: with Ctrl-D, or when the program that reads the lines is gone.

use std::io::{self, Read};
use std::process::ExitCode;

use windlass_store_testkit::servers::{PostgresServer, Settings};

fn main() -> ExitCode {
    match PostgresServer::try_start(&Settings::default()) {
        Ok(postgres) => {
            println!("DATABASE_URL={}\n", postgres.url());
            // What is written is of no interest, and an error is an end as well.
            let _ = io::stdin().read_to_end(&mut Vec::new());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
