//! The servers that all tests of a run share. Tests run in processes of their own, so the program above them
//! starts what they share.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// Servers that run until this is dropped, or until this process is gone.
pub(crate) struct Servers {
    program: Child,
    environment: Vec<(String, String)>,
}

impl Servers {
    /// Starts them with the program that the build has put beside this one. It leaves out those that the user
    /// names.
    pub(crate) fn start() -> Result<Self> {
        let path = std::env::current_exe()?.with_file_name("test-servers");
        let mut program = Command::new(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", path.display()))?;
        let lines = BufReader::new(program.stdout.take().expect("its output is a pipe")).lines();
        let mut environment = Vec::new();
        for line in lines {
            match line?.split_once('=') {
                Some((name, value)) => environment.push((name.to_owned(), value.to_owned())),
                // The line after the last.
                None => {
                    let shown: Vec<_> =
                        environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    eprintln!("\n=== servers: {}", shown.join(" "));
                    return Ok(Self { program, environment });
                }
            }
        }
        bail!("the servers of the tests do not start ({})", program.wait()?)
    }

    /// Where they are, for the tests.
    pub(crate) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // The end of its input tells it to stop them.
        drop(self.program.stdin.take());
        let _ = self.program.wait();
    }
}
