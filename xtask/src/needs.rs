//! What the tests need beyond a Rust toolchain, found or installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// Makes sure that a C compiler is there: the bundled SQLite is compiled from source.
pub(crate) fn c_compiler() -> Result<()> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let is_there = || answers(&compiler, "--version");
    if is_there() || install("C compiler", "gcc libc6-dev", is_there)? {
        return Ok(());
    }
    bail!(
        "no C compiler: install gcc or clang, or set CC to one (the bundled SQLite is compiled from source)"
    )
}

/// Makes sure that the servers of the tests can be started. Only their programs are wanted: tests start servers
/// of their own in temporary folders, also when `DATABASE_URL` or `REDIS_URL` names one, because some kill theirs.
pub(crate) fn servers() -> Result<()> {
    if !has_postgresql() && !without_main_cluster(|| install("PostgreSQL", "postgresql", has_postgresql))? {
        bail!(
            "no PostgreSQL server: install PostgreSQL 14 or newer (Debian: apt-get install postgresql), and \
             put its programs into PATH if they are not where pg_config --bindir says"
        );
    }
    if !has_pgbouncer() && !install("PgBouncer", "pgbouncer", has_pgbouncer)? {
        bail!("no PgBouncer: install it (Debian: apt-get install pgbouncer), or put it into PATH");
    }
    if !has_redis() && !without_service(|| install("Redis", "redis-server", has_redis))? {
        bail!(
            "no Redis server: install Redis 6.2 or newer (Debian: apt-get install redis-server), or put redis-server \
             and redis-cli into PATH"
        );
    }
    // The test that sets the clock is for Linux only.
    let wants_faketime = cfg!(target_os = "linux") && !has_faketime();
    if wants_faketime && !install("libfaketime", "libfaketime", has_faketime)? {
        bail!(
            "no libfaketime, for tests of a clock that is set: install it (Debian: apt-get install libfaketime)"
        );
    }
    // It only checks more: tests read metrics with a strict reader of their own in any case.
    let has_promtool = || answers("promtool", "--version");
    if !has_promtool() && !without_service(|| install("promtool", "prometheus", has_promtool))? {
        eprintln!("=== no promtool: metrics and alert rules are checked by the tests alone");
    }
    Ok(())
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

fn has_postgresql() -> bool {
    let configured = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output();
    let configured = configured.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders = versions
        .map(|version| version.path().join("bin"))
        .chain(configured.into_iter().filter(|folder| !folder.is_empty()).map(PathBuf::from));
    answers("postgres", "--version") || folders.any(|folder| folder.join("postgres").is_file())
}

fn has_pgbouncer() -> bool {
    answers("pgbouncer", "--version") || Path::new("/usr/sbin/pgbouncer").is_file()
}

/// Looks where the tests look, see `clock_steps.rs` among those of the whole system.
fn has_faketime() -> bool {
    let folders = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].into_iter().map(PathBuf::from);
    let inner = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    folders.chain(inner).any(|folder| folder.join("faketime/libfaketimeMT.so.1").is_file())
}

fn has_redis() -> bool {
    answers("redis-server", "--version") && answers("redis-cli", "--version")
}

/// Keeps Debian's package from starting a server of its own: it would never be used.
fn without_service<T>(install: impl FnOnce() -> Result<T>) -> Result<T> {
    use std::os::unix::fs::PermissionsExt;

    let policy = Path::new("/usr/sbin/policy-rc.d");
    // Where there is one already, the machine's owner has decided.
    let is_set = can_install()
        && !policy.exists()
        && fs::write(policy, "#!/bin/sh\nexit 101\n").is_ok()
        && fs::set_permissions(policy, fs::Permissions::from_mode(0o755)).is_ok();
    let installed = install();
    if is_set {
        fs::remove_file(policy)?;
    }
    installed
}

/// Keeps Debian's package from making and starting a cluster of its own meanwhile: it would never be used.
fn without_main_cluster<T>(install: impl FnOnce() -> Result<T>) -> Result<T> {
    let folder = Path::new("/etc/postgresql-common/createcluster.d");
    let setting = folder.join("windlass-tests.conf");
    let is_set = can_install()
        && fs::create_dir_all(folder)
            .and_then(|()| fs::write(&setting, "create_main_cluster = false\n"))
            .is_ok();
    let installed = install();
    if is_set {
        fs::remove_file(setting)?;
    }
    installed
}

/// Installs packages where that is possible without a question, and answers whether what was missing is there.
fn install(what: &str, packages: &str, is_there: impl Fn() -> bool) -> Result<bool> {
    if !can_install() {
        return Ok(false);
    }
    eprintln!("=== no {what}: apt-get install {packages}");
    let script = format!("apt-get update -q && apt-get install -q -y --no-install-recommends {packages}");
    let installed =
        Command::new("sh").args(["-c", &script]).env("DEBIAN_FRONTEND", "noninteractive").status()?;
    Ok(installed.success() && is_there())
}

fn can_install() -> bool {
    answers("apt-get", "--version") && is_root()
}

fn answers(program: &str, argument: &str) -> bool {
    let quiet = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
