//! The one server of a comparison. It is started by a program of its own, which is built beside the
//! rivals, so that these commands need not be built with everything that it takes to start one.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

use super::program::binary_name;
use super::target;

/// Runs until this is dropped, or until this process is gone.
#[derive(Debug)]
pub(crate) struct Server {
    /// Without a database.
    url: String,
    /// The process id, of its first process if there are several.
    pid: String,
    pub(crate) version: String,
    program: Child,
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts it with the program that was built from a folder.
    pub(crate) fn start(folder: &str, arguments: &[&str]) -> Result<Self> {
        let path = target().join(format!("release/{}", binary_name(folder)));
        let mut program = Command::new(&path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", path.display()))?;
        let orders = program.stdin.take();
        let mut answers = BufReader::new(program.stdout.take().expect("its output is a pipe")).lines();
        let mut next = || answers.next().context("the server does not start")?.context("the server's line");
        let (url, pid, version) = (next()?, next()?, next()?);
        Ok(Self { url, pid, version, program, orders, answers })
    }

    /// Makes all databases anew, and answers what a program is told about the server.
    pub(crate) fn make_fresh(&mut self) -> Result<Vec<String>> {
        let orders = self.orders.as_mut().expect("its input is a pipe");
        orders.write_all(b"fresh\n").and_then(|()| orders.flush()).context("the server is gone")?;
        self.answers.next().context("the server is gone")??;
        Ok(vec!["--server".into(), self.url.clone(), "--server-pid".into(), self.pid.clone()])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input tells it to stop.
        drop(self.orders.take());
        let _ = self.program.wait();
    }
}
