//! Where a server lives: a temporary folder, the account it runs as, and a watchman who ends the server and
//! removes the folder when this process is gone, however it went.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

use tempfile::TempDir;

use super::StartError;
use super::running::Running;

/// A folder for one server. Dropping it removes the folder; the server must have been stopped by then.
#[derive(Debug)]
pub(super) struct Home {
    watchman: Watchman,
    folder: TempDir,
    account: Option<Account>,
}

impl Home {
    /// An empty folder that belongs to the first of the accounts that exists, or to us if we are not root:
    /// servers refuse to run as root. `end_signal` is what ends the server quickly and tidily.
    pub(super) fn new(
        name: &str,
        accounts: &[&'static str],
        end_signal: &'static str,
    ) -> Result<Self, StartError> {
        let account = Account::choose(accounts)?;
        let folder = tempfile::Builder::new()
            .prefix(&format!("windlass-{name}-"))
            .tempdir()
            .map_err(StartError::step("create a temporary folder"))?;
        if let Some(account) = account {
            chown(folder.path(), Some(account.user), Some(account.group))
                .map_err(StartError::step("give the server its folder"))?;
        }
        let watchman = Watchman::new(folder.path(), account, end_signal)?;
        Ok(Self { watchman, folder, account })
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The user and group the server runs as, if they are not ours.
    pub(super) fn account(&self) -> Option<Account> {
        self.account
    }

    /// A command that runs as the server's account, in its folder.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).stdin(Stdio::null());
        forget_surroundings(&mut command);
        if let Some(account) = self.account {
            account.apply(&mut command);
        }
        command
    }

    /// Starts the server. What it writes goes to the log.
    pub(super) fn serve(&self, mut command: Command) -> Result<Running, StartError> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())
            .map_err(StartError::step("open the server's log"))?;
        let second: File = log.try_clone().map_err(StartError::step("open the server's log twice"))?;
        // In a group of its own it does not get the terminal's Ctrl-C before those who use it have ended.
        let child = command
            .stdout(second)
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(StartError::step(format!("start {}", command.get_program().display())))?;
        self.watchman.watch(Some(child.id()));
        Ok(Running::new(child))
    }

    /// To be called when the server has ended: its process id may be that of another process from now on.
    pub(super) fn forget(&self) {
        self.watchman.watch(None);
    }

    /// What the server has written so far.
    pub(super) fn log(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.path().join("server.log")
    }
}

/// Runs a command to its end and answers what it printed.
pub(super) fn run(mut command: Command) -> Result<String, StartError> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(StartError::step(format!("run {name}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(StartError::Refused {
        what: format!("{name} failed ({})", output.status),
        said: String::from_utf8_lossy(&said).trim_end().to_owned(),
    })
}

/// Settings of the user's own client (`PGHOST`, `REDISCLI_AUTH` and so on) must not reach ours.
pub(super) fn forget_surroundings(command: &mut Command) {
    let is_clients = |name: &[u8]| name.starts_with(b"PG") || name.starts_with(b"REDISCLI");
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_clients(name.as_encoded_bytes())) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C");
}

/// A user that is not root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: u32,
    pub(super) group: u32,
}

impl Account {
    fn choose(names: &[&'static str]) -> Result<Option<Self>, StartError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        names.iter().find_map(|name| Self::named(name)).map(Some).ok_or_else(|| StartError::Missing {
            program: "account that is not root",
            looked: format!("looked for {}", names.join(", ")),
            install: "one, since servers refuse to run as root",
        })
    }

    fn named(name: &str) -> Option<Self> {
        let id = |option| {
            let output = Command::new("id").args([option, name]).output().ok()?;
            String::from_utf8_lossy(&output.stdout).trim().parse().ok()
        };
        Some(Self { user: id("-u")?, group: id("-g")? })
    }

    fn apply(self, command: &mut Command) {
        command.uid(self.user).gid(self.group);
    }
}

/// A shell that reads from a pipe whose other end is ours alone. The pipe ends when this process does, and then
/// the shell clears up. This works wherever there is a shell and for every way to die; a signal that the kernel
/// sends to orphans would go with the thread that started the server, which in tests is long before its use ends.
#[derive(Debug)]
struct Watchman {
    shell: Child,
    line: Mutex<Option<ChildStdin>>,
}

/// Each line names the server to end, an empty one none.
const WATCH: &str = r#"
trap '' HUP INT TERM
server=
while read -r line; do server=$line; done
if [ -n "$server" ] && kill -s "$2" "$server" 2>/dev/null; then
    left=100
    while [ $left -gt 0 ] && kill -0 "$server" 2>/dev/null; do left=$((left - 1)); sleep 0.1; done
    [ $left -gt 0 ] || kill -s KILL "$server" 2>/dev/null
fi
rm -rf "$1"
"#;

impl Watchman {
    fn new(folder: &Path, account: Option<Account>, end_signal: &str) -> Result<Self, StartError> {
        let mut command = Command::new("sh");
        command.args(["-c", WATCH, "watchman"]).arg(folder).arg(end_signal);
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(account) = account {
            account.apply(&mut command);
        }
        let mut shell = command.process_group(0).spawn().map_err(StartError::step("start a shell"))?;
        let line = Mutex::new(shell.stdin.take());
        Ok(Self { shell, line })
    }

    fn watch(&self, server: Option<u32>) {
        let line = server.map_or_else(|| "\n".to_owned(), |id| format!("{id}\n"));
        let mut pipe = self.line.lock().expect("no holder of the lock panics");
        // A watchman who was killed cannot be told; the server then only goes with our own orderly end.
        let _ = pipe.as_mut().map(|pipe| pipe.write_all(line.as_bytes()));
    }
}

impl Drop for Watchman {
    fn drop(&mut self) {
        self.line.lock().expect("no holder of the lock panics").take();
        let _ = self.shell.wait();
    }
}
