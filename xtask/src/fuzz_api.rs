//! `cargo xtask fuzz-api`: requests that are made from the OpenAPI document, by schemathesis, against a running server. Puts
//! schemathesis into a temporary virtual environment, from PyPI. A crash of the server, an answer of 5xx, and an answer that
//! the document does not know are failures.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::shell;

/// What is asked of each answer.
const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

/// Arguments of `fuzz-api`.
#[derive(Debug, Args)]
pub(crate) struct FuzzApi {
    /// Requests for each route at most
    #[arg(long, default_value_t = 100, value_name = "N")]
    examples: u32,
    /// For so long at most
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    seconds: u32,
    /// The same seed makes the same requests
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// The store of the server [default: memory:]
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
}

/// A server, which ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl FuzzApi {
    pub(crate) fn run(&self) -> Result<()> {
        shell::cargo("build the server", ["build", "-p", "windlass-cli"]).run()?;
        let folder = tempfile::tempdir()?;
        let python = folder.path().join("python");
        shell::program("a virtual environment", "python3", ["-m", "venv"]).args([&python]).run()?;
        let pip = python.join("bin/pip");
        shell::program("schemathesis", &pip.to_string_lossy(), ["install", "--quiet", "schemathesis==4.*"])
            .run()?;
        let (mut server, url) = serve(&self.store)?;
        let result = self.fuzz(&python, folder.path(), &url);
        ensure!(server.0.try_wait()?.is_none(), "the server has ended");
        result
    }

    fn fuzz(&self, python: &Path, folder: &Path, url: &str) -> Result<()> {
        let seed = self.seed.map(|seed| format!("--seed={seed}"));
        shell::program("requests from the document", &python.join("bin/st").to_string_lossy(), ["run"])
            .args([format!("{url}/api/v1/openapi.json"), format!("--checks={CHECKS}")])
            .args([format!("--max-examples={}", self.examples), format!("--max-time={}", self.seconds)])
            .args(["--workers=2", "--continue-on-failure", "--suppress-health-check=all", "--warnings=off"])
            // A stream ends with its job only.
            .args(["--exclude-operation-id=job_events", "--request-timeout=90", "--no-color"])
            .args(seed)
            .within(folder)
            .run()
    }
}

/// Starts a server that asks for no token, on a free port.
fn serve(store: &str) -> Result<(Server, String)> {
    let program = shell::root().join("target/debug/windlass");
    let child = Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0", "--auth", "none", "--json", "--quiet", "--store", store])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the server")?;
    let mut server = Server(child);
    let output = server.0.stdout.take().context("the server has an output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let listening: Value =
        serde_json::from_str(&line).with_context(|| format!("the server said {line:?}"))?;
    let url = listening["url"].as_str().context("the server says where it listens")?.to_owned();
    Ok((server, url))
}
