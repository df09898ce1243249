//! Every example runs to its end and says what it should.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use windlass_store_testkit::servers::PostgresServer;

/// Runs an example and checks that it says these things, in this order.
fn says(program: &str, wanted: &[&str]) {
    says_to(program, &[], wanted);
}

/// The same, with arguments.
fn says_to(program: &str, arguments: &[&str], wanted: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("the example starts");
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} failed\n{said}\n{complaint}");
    let mut rest = &*said;
    for text in wanted {
        let Some(position) = rest.find(text) else { panic!("{program} does not say {text:?} here:\n{said}") };
        rest = &rest[position + text.len()..];
    }
}

#[test]
fn hello() {
    says(env!("CARGO_BIN_EXE_hello"), &["survives a power cut", "hello Ferris, attempt 1"]);
}

#[test]
fn campaign() {
    says(env!("CARGO_BIN_EXE_campaign"), &["100000 mails sent"]);
}

#[test]
fn shared_state() {
    says(
        env!("CARGO_BIN_EXE_shared_state"),
        &["ada signed up at acme", "hello@example.org", "4 jobs, 2 mails"],
    );
}

#[test]
fn error_classes() {
    says(
        env!("CARGO_BIN_EXE_error_classes"),
        &[
            "42: completed with 42",
            "offline: the job is dead (attempts_exhausted): the line is dead",
            "maybe: the job is dead (attempts_exhausted): no answer from the bank",
            "busy: the job is dead (attempts_exhausted): too many orders",
            "unwanted: the job was cancelled (discarded)",
            "many: the job is dead (permanent): invalid digit",
            "mail: the job is dead (permanent): no such mailbox",
        ],
    );
}

#[test]
fn retries_and_timeouts() {
    says(
        env!("CARGO_BIN_EXE_retries_and_timeouts"),
        &[
            "attempt 3 of 5",
            "done, 2 attempts to spare",
            "1: failed connection refused",
            "2: timed_out timed out after 50ms: gave up waiting",
            "once: the job is dead (attempts_exhausted): connection refused",
        ],
    );
}

#[test]
fn blocking_work() {
    says(
        env!("CARGO_BIN_EXE_blocking_work"),
        &[
            "sum: 500500",
            "sum: 32004000",
            "endless stopped, soon",
            "endless: the job is dead",
            "timed out after 50ms",
        ],
    );
}

#[test]
fn graceful_shutdown() {
    says(
        env!("CARGO_BIN_EXE_graceful_shutdown"),
        &[
            "closing",
            "soup is ready",
            "soup: was finished, attempts used: 1",
            "stew: went back, as if it had never been started, attempts used: 0",
            "cake: went back, as if it had never been started, attempts used: 0",
        ],
    );
}

const LEDGER: &[&str] = &["200 transfers enqueued", "4 workers killed", "the books are exact"];

#[test]
fn ledger() {
    says(env!("CARGO_BIN_EXE_ledger"), LEDGER);
}

#[test]
fn ledger_on_postgres() {
    says_to(env!("CARGO_BIN_EXE_ledger"), &[PostgresServer::shared().url()], LEDGER);
}

#[test]
fn testing_your_jobs() {
    says(env!("CARGO_BIN_EXE_testing_your_jobs"), &["the reminders wait", "given up after three attempts"]);
}

#[test]
fn throttle_api() {
    says(env!("CARGO_BIN_EXE_throttle_api"), &["12 answers, none refused", "a slow call was given up"]);
}

#[test]
fn http_backpressure() {
    says(env!("CARGO_BIN_EXE_http_backpressure"), &["HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable"]);
}

#[test]
fn ordered_map() {
    says(env!("CARGO_BIN_EXE_ordered_map"), &["1 of 6", "4 of 6: failed", "6 of 6", "3 at once at most"]);
}

#[test]
fn batch_insert() {
    says(
        env!("CARGO_BIN_EXE_batch_insert"),
        &["1000 rows", "the bad one was told so", "1000 rows in the table"],
    );
}

#[test]
fn batch_handler() {
    says(
        env!("CARGO_BIN_EXE_batch_handler"),
        &[
            "1000 jobs, a few statements",
            "one of them: the job is dead (permanent): a person needs a name",
            "1000 rows in the table",
        ],
    );
}

/// The newcomer's program runs until it is told to stop, and then ends well.
#[test]
#[cfg(unix)]
fn newcomer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut program = Command::new(env!("CARGO_BIN_EXE_newcomer"))
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let mut said = String::new();
    let stdout = program.stdout.take().expect("its output is piped");
    BufReader::new(stdout).read_line(&mut said).expect("it says something");
    assert_eq!(said.trim(), "hello Ferris, attempt 1");
    let told = Command::new("kill").args(["-TERM", &program.id().to_string()]).status().expect("kill runs");
    assert!(told.success());
    assert!(program.wait().expect("it ends").success(), "SIGTERM is an ordinary end");
}
