//! Help, completions and command lines that make no sense.

use crate::shell::Shell;

const COMMANDS: [&[&str]; 24] = [
    &[],
    &["demo"],
    &["enqueue"],
    &["jobs"],
    &["jobs", "list"],
    &["jobs", "show"],
    &["jobs", "cancel"],
    &["jobs", "retry"],
    &["jobs", "delete"],
    &["flows"],
    &["flows", "list"],
    &["flows", "show"],
    &["flows", "cancel"],
    &["flows", "retry"],
    &["queues"],
    &["queues", "list"],
    &["queues", "define"],
    &["queues", "remove"],
    &["workers"],
    &["prune"],
    &["migrate"],
    &["bench"],
    &["completions"],
    &["demo", "--keep"],
];

#[test]
fn every_command_explains_itself_with_examples() {
    let shell = Shell::new();
    for command in COMMANDS {
        let help = shell.run(command.iter().chain(&["--help"])).ok();
        assert!(help.stdout.contains("Usage: windlass") && help.stdout.contains("Examples:"), "{command:?}");
        assert!(!help.stdout.contains("--as-worker"), "hidden things stay hidden");
    }
    shell.run(["--help"]).ok().prints("Exit codes:").prints("WINDLASS_STORE");
    shell.run(["--version"]).ok().prints(env!("CARGO_PKG_VERSION"));
}

#[test]
fn completions_name_the_commands() {
    let shell = Shell::new();
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = shell.run(["completions", name]).ok();
        assert!(script.stdout.contains("enqueue") && script.stdout.contains("prune"), "{name}");
    }
    shell.run(["completions", "tcsh"]).exits(2).complains("possible values: bash");
}

#[test]
fn a_command_line_that_makes_no_sense_is_refused() {
    let shell = Shell::new();
    for args in [
        vec![],
        vec!["frobnicate"],
        vec!["jobs"],
        vec!["jobs", "show"],
        vec!["enqueue"],
        vec!["jobs", "list", "--limit", "0"],
        vec!["jobs", "list", "--limit", "1001"],
        vec!["jobs", "list", "--queue", "a b"],
        vec!["prune", "--limit", "0"],
        vec!["demo", "--lease", "1ms"],
        vec!["demo", "--store", "memory:"],
    ] {
        shell.run(&args).exits(2);
    }
    assert_eq!(std::fs::read_dir(shell.folder()).unwrap().count(), 0);
}
