//! What the tests need beyond a Rust toolchain, found or installed.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// Makes sure that a C compiler is there: the bundled SQLite is compiled from source.
pub(crate) fn c_compiler() -> Result<()> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    if answers(&compiler, "--version") {
        return Ok(());
    }
    if answers("apt-get", "--version") && is_root() {
        eprintln!("=== no C compiler: apt-get install gcc libc6-dev");
        let installed = Command::new("sh")
            .args(["-c", "apt-get update -q && apt-get install -q -y gcc libc6-dev"])
            .status()?;
        if installed.success() && answers(&compiler, "--version") {
            return Ok(());
        }
    }
    bail!(
        "no C compiler: install gcc or clang, or set CC to one (the bundled SQLite is compiled from source)"
    )
}

/// Whether `cargo nextest` is there. It is not needed; it only runs the same tests faster.
pub(crate) fn has_nextest() -> bool {
    Command::new("cargo")
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn answers(program: &str, argument: &str) -> bool {
    let quiet = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
