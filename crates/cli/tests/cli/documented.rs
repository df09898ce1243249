//! The examples of `docs/operations/cli.md`, run as they stand, one after the other in one folder.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::shell::{Shell, finish};

const PAGE: &str = include_str!("../../../../docs/operations/cli.md");

/// The lines of the page's shell examples, each with the exit code that its comment announces.
fn examples() -> Vec<(&'static str, i32)> {
    let mut is_example = false;
    let mut examples = Vec::new();
    for line in PAGE.lines() {
        match line {
            "```sh" => is_example = true,
            "```" => is_example = false,
            line if is_example => {
                let code = line.split_once("# exits ").map_or(0, |(_, code)| code.trim().parse().unwrap());
                examples.push((line, code));
            }
            _ => {}
        }
    }
    examples
}

#[cfg(unix)]
#[test]
fn the_documented_examples_work() {
    let shell = Shell::new();
    let program = Path::new(env!("CARGO_BIN_EXE_windlass"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let examples = examples();
    assert!(examples.len() > 10, "the page has examples");
    for (line, code) in examples {
        let mut sh = Command::new("sh");
        sh.args(["-c", line]).current_dir(shell.folder()).env("PATH", &path).stdin(Stdio::null());
        sh.env_remove("WINDLASS_STORE");
        let ran = finish(&mut sh);
        assert_eq!(ran.code, Some(code), "{line}\n{ran:#?}");
    }
}
