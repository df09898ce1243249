//! Starts the servers that tests share, prints where they are as lines of the form `NAME=value`, then an empty
//! line, and stops them when its input ends: with Ctrl-D, or when the program that reads the lines is gone. One
//! that the environment names already is left out.

use std::io::{self, Read};
use std::process::ExitCode;

use windlass_store_testkit::servers::{
    PostgresServer, RedisCluster, RedisServer, RedisSettings, Settings, StartError,
};

fn main() -> ExitCode {
    match start() {
        Ok(_servers) => {
            println!();
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

type Servers = (Option<PostgresServer>, Option<RedisServer>, Option<RedisCluster>);

fn start() -> Result<Servers, StartError> {
    let postgres = unless_named(
        "DATABASE_URL",
        || PostgresServer::try_start(&Settings::default()),
        PostgresServer::url,
    )?;
    let quick = RedisSettings::default();
    let redis = unless_named("REDIS_URL", || RedisServer::try_start(&quick), RedisServer::url)?;
    let cluster = unless_named("REDIS_CLUSTER_URL", || RedisCluster::try_start(&quick), RedisCluster::url)?;
    Ok((postgres, redis, cluster))
}

fn unless_named<S>(
    variable: &str,
    start: impl FnOnce() -> Result<S, StartError>,
    url: impl FnOnce(&S) -> String,
) -> Result<Option<S>, StartError> {
    if std::env::var_os(variable).is_some_and(|url| !url.is_empty()) {
        return Ok(None);
    }
    let server = start()?;
    println!("{variable}={}", url(&server));
    Ok(Some(server))
}
