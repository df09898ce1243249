//! The PostgreSQL that is installed on this machine, and fresh clusters made by it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use super::super::StartError;
use super::super::home::{Account, Home, run};
use super::{DATABASE, ROLE, SUPERUSER};

const OLDEST: u32 = 14;

/// Programs of one version.
#[derive(Debug)]
pub(super) struct Install {
    folder: PathBuf,
    version: String,
}

impl Install {
    /// Looks along `PATH`, asks `pg_config`, and looks where Debian keeps its versions, the newest first.
    pub(super) fn find() -> Result<Self, StartError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let along_path = std::env::split_paths(&path)
            .filter_map(|folder| Some(fs::canonicalize(folder.join("postgres")).ok()?.parent()?.to_owned()));
        let configured = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output().ok();
        let configured = configured.map(|output| String::from_utf8_lossy(&output.stdout).trim().into());
        let folder = along_path
            .chain(configured)
            .chain(debian_folders())
            .find(|folder| ["postgres", "initdb"].iter().all(|program| folder.join(program).is_file()))
            .ok_or_else(|| missing("looked along PATH, asked pg_config, looked in /usr/lib/postgresql"))?;
        let mut ask = Command::new(folder.join("postgres"));
        ask.arg("--version");
        // As in "postgres (PostgreSQL) 15.4 (Debian 15.4-1)" or "postgres (PostgreSQL) 18beta1".
        let version = run(ask)?.split_whitespace().nth(2).unwrap_or_default().to_owned();
        let major = version.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
        if major.parse().is_ok_and(|major: u32| major >= OLDEST) {
            Ok(Self { folder, version })
        } else {
            Err(missing(&format!("found {version:?} in {}", folder.display())))
        }
    }

    /// The path of a program: of this version if it has it, else from `PATH`.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        if path.is_file() { path } else { name.into() }
    }

    /// Makes a fresh cluster in the server's folder. The first one on a machine is kept as a template, because
    /// a copy takes a fifth of the time; without a safe place for it each one is made anew.
    pub(super) fn create_cluster(&self, home: &Home) -> Result<(), StartError> {
        let Some(templates) = Templates::open(home) else {
            return self.initialise(home, &cluster(home));
        };
        let template = templates.folder.join(format!("{}-{}", self.version, templates.period));
        if !template.exists() {
            let lock = templates.lock_file()?;
            lock.lock().map_err(StartError::step("lock the templates"))?;
            if !template.exists() {
                templates.remove_old();
                let unfinished = templates.folder.join("unfinished");
                self.initialise(home, &unfinished)?;
                fs::rename(&unfinished, &template).map_err(StartError::step("keep a template"))?;
            }
        }
        let lock = templates.lock_file()?;
        lock.lock_shared().map_err(StartError::step("share the templates"))?;
        let mut copy = home.command("cp");
        copy.args(["-R", "-p"]).arg(template).arg(cluster(home));
        run(copy).map(drop)
    }

    fn initialise(&self, home: &Home, folder: &Path) -> Result<(), StartError> {
        let mut initdb = home.command(self.program("initdb"));
        initdb.arg("-D").arg(folder).args(["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]);
        run(initdb)?;
        let mut single = home.command(self.program("postgres"));
        single.arg("--single").arg("-D").arg(folder).arg(DATABASE);
        let roles = format!(
            "create role {ROLE} login createdb\n\
             alter database {DATABASE} owner to {ROLE}\n"
        );
        feed(single, &roles).map_err(StartError::step("create the role of the tests"))
    }
}

/// The cluster in a server's folder.
pub(super) fn cluster(home: &Home) -> PathBuf {
    home.path().join("cluster")
}

fn missing(looked: &str) -> StartError {
    StartError::Missing {
        program: "PostgreSQL server, 14 or newer,",
        looked: looked.to_owned(),
        install: "postgresql (Debian: apt-get install postgresql; its own cluster is not used)",
    }
}

fn debian_folders() -> Vec<PathBuf> {
    let entries = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_unstable_by(|left, right| right.cmp(left));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

fn feed(mut command: Command, text: &str) -> io::Result<()> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let written = child.stdin.take().expect("its input is a pipe").write_all(text.as_bytes());
    let output = child.wait_with_output()?;
    written?;
    let said = String::from_utf8_lossy(&output.stderr);
    // The program ends well also when a statement of its input failed.
    if output.status.success() && !said.contains("ERROR:") {
        return Ok(());
    }
    Err(io::Error::other(said.into_owned()))
}

/// Clusters that were just made, one per version. They are kept for a day, before which no machine clears temporary
/// folders, and not longer than the machine is up, since they are not synced to the disk.
struct Templates {
    folder: PathBuf,
    period: String,
}

impl Templates {
    /// Nothing when the folder belongs to another account, which could have put anything there.
    fn open(home: &Home) -> Option<Self> {
        let own = rustix::process::geteuid().as_raw();
        let account = home.account();
        let user = account.map_or(own, |account| account.user);
        let folder = std::env::temp_dir().join(format!("windlass-postgres-templates-{user}"));
        if fs::create_dir(&folder).is_ok()
            && let Some(Account { user, group }) = account
        {
            chown(&folder, Some(user), Some(group)).ok()?;
        }
        let found = fs::symlink_metadata(&folder).ok()?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let days = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() / (24 * 60 * 60);
        let period = format!("{}-{days}", boot.trim());
        (found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0)
            .then_some(Self { folder, period })
    }

    fn lock_file(&self) -> Result<File, StartError> {
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.join("lock"))
            .map_err(StartError::step("open the templates' lock"))
    }

    /// Removes what was made earlier, and what was not finished.
    fn remove_old(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.path().is_dir()) {
            if !entry.file_name().to_string_lossy().ends_with(&self.period) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
