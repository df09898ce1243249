//! A PostgreSQL server for tests.

mod install;
mod settings;
mod shared;

use std::fs;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use rustix::process::Signal;

use super::home::{self, Home};
use super::running::Running;
use super::{PATIENCE, StartError, certificates, free_port, percent_encoded, poll, tail};
use install::Install;
pub use settings::Settings;
pub use shared::SharedPostgres;

/// The role of [`PostgresServer::url`]: it owns the database and may create others, but is not a superuser, as
/// it should be in production.
const ROLE: &str = "windlass";
const SUPERUSER: &str = "postgres";
const DATABASE: &str = "postgres";

/// What is longer goes to psql as a file: a whole migration is longer than an argument may be.
const ARGUMENT_MAX: usize = 64 << 10;

/// A server of one's own: to be killed, stopped, filled up or set differently. It and its folder are gone when
/// this is dropped, and also when the process that has it ends in any other way.
///
/// All calls block. What they need from the machine they expect to get; they panic with the end of the server's
/// log if they do not.
#[derive(Debug)]
pub struct PostgresServer {
    // The server goes before its folder does.
    running: Mutex<Option<Running>>,
    home: Home,
    install: Install,
    settings: Settings,
    port: u16,
}

impl PostgresServer {
    /// The server that all tests of this run share; see [`SharedPostgres`].
    pub fn shared() -> &'static SharedPostgres {
        SharedPostgres::get()
    }

    /// Starts a fresh server and waits until it answers.
    ///
    /// # Panics
    ///
    /// When it cannot be started, with the reason.
    pub fn start(settings: &Settings) -> Self {
        Self::try_start(settings).unwrap_or_else(|error| panic!("no PostgreSQL server: {error}"))
    }

    /// Starts a fresh server and waits until it answers.
    ///
    /// # Errors
    ///
    /// When PostgreSQL 14 or newer is not on this machine, or does not start.
    pub fn try_start(settings: &Settings) -> Result<Self, StartError> {
        let install = Install::find()?;
        let home = Home::new("postgres", &["postgres", "nobody"], "QUIT")?;
        install.create_cluster(&home)?;
        if settings.has_tls() {
            certificates::create(&home)?;
        }
        settings.write(&home)?;
        let mut server =
            Self { running: Mutex::new(None), home, install, settings: settings.clone(), port: 0 };
        // Another process may take the port before the server does.
        for attempts_left in (0..5).rev() {
            server.port = free_port();
            match server.launch() {
                Ok(()) => break,
                Err(error) if attempts_left == 0 || !server.home.log().contains("already in use") => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        if let Some(password) = settings.secret() {
            let password = password.replace('\'', "''");
            server.try_psql(&format!("alter role {ROLE} password '{password}'"))?;
        }
        Ok(server)
    }

    /// Where to connect, as the owner of the database.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// Where to connect as a superuser. The last connections of a full server are reserved for it.
    pub fn superuser_url(&self) -> String {
        format!("postgres://{SUPERUSER}@127.0.0.1:{}/{DATABASE}", self.port)
    }

    /// The port, which [`restart`](Self::restart) keeps.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate of the authority that signed the server's, in PEM. The server's is for `localhost` and
    /// `127.0.0.1`.
    ///
    /// # Panics
    ///
    /// Without [`Settings::tls`].
    pub fn ca_path(&self) -> PathBuf {
        assert!(self.settings.has_tls(), "start the server with Settings::tls to have a certificate");
        certificates::authority(&self.home)
    }

    /// The process id of the postmaster.
    ///
    /// # Panics
    ///
    /// When the server is stopped.
    pub fn pid(&self) -> u32 {
        self.running().as_ref().expect("the server is not stopped").id()
    }

    /// Kills the server without warning, all processes of it at once, and waits until they are gone.
    pub fn kill(&self) {
        if let Some(running) = self.running().take() {
            running.kill();
            self.home.forget();
        }
    }

    /// Stops the server in an orderly way that does not wait for clients to leave.
    pub fn stop(&self) {
        if let Some(running) = self.running().take() {
            running.end(Signal::INT);
            self.home.forget();
        }
    }

    /// Starts the server again on the same content and port and waits until it answers. One that runs is
    /// stopped first.
    pub fn restart(&self) {
        self.stop();
        self.launch().unwrap_or_else(|error| panic!("the PostgreSQL server does not come back: {error}"));
    }

    /// Runs SQL as a superuser and answers the rows, columns separated by `|`.
    ///
    /// # Panics
    ///
    /// When the server refuses it.
    pub fn psql(&self, sql: &str) -> String {
        self.try_psql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The end of the server's log, for the text of a failure.
    pub fn log(&self) -> String {
        tail(&self.home.log()).to_owned()
    }

    /// The URL with another port, as that of a pooler.
    pub(super) fn url_at(&self, port: u16) -> String {
        let secret = self.settings.secret().map(|secret| format!(":{}", percent_encoded(secret)));
        let secret = secret.unwrap_or_default();
        let options = if self.settings.has_tls() && port == self.port { "?sslmode=require" } else { "" };
        format!("postgres://{ROLE}{secret}@127.0.0.1:{port}/{DATABASE}{options}")
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().expect("no holder of the lock panics")
    }

    fn launch(&self) -> Result<(), StartError> {
        let mut command = self.home.command(self.install.program("postgres"));
        command.arg("-D").arg(install::cluster(&self.home)).args(["-p", &self.port.to_string()]);
        let mut running = self.home.serve(command)?;
        let status_file = install::cluster(&self.home).join("postmaster.pid");
        let is_ready = poll(PATIENCE, || {
            if running.ended().is_some() {
                return Some(false);
            }
            says_ready(&status_file, running.id()).then_some(true)
        });
        if is_ready == Some(true) {
            *self.running() = Some(running);
            return Ok(());
        }
        let what = match running.ended() {
            Some(status) => format!("the server ended at once ({status})"),
            None => format!("the server is not ready after {} s", PATIENCE.as_secs()),
        };
        drop(running);
        self.home.forget();
        Err(StartError::Refused { what, said: self.log() })
    }

    fn try_psql(&self, sql: &str) -> Result<String, StartError> {
        psql(&self.install, &self.superuser_url(), sql)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the PostgreSQL server's log ends with:\n{}", self.log());
        }
        if let Ok(running) = self.running.get_mut() {
            drop(running.take());
        }
        self.home.forget();
    }
}

/// The postmaster keeps its state in this file: its process id in the first line, and in the eighth what it is
/// doing. A file that a killed server left behind has another process id.
fn says_ready(status_file: &Path, id: u32) -> bool {
    let text = fs::read_to_string(status_file).unwrap_or_default();
    let line = |number| text.lines().nth(number).unwrap_or_default().trim();
    line(0) == id.to_string() && line(7) == "ready"
}

fn psql(install: &Install, url: &str, sql: &str) -> Result<String, StartError> {
    let mut command = Command::new(install.program("psql"));
    home::forget_surroundings(&mut command);
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url]);
    if sql.len() < ARGUMENT_MAX {
        command.args(["-c", sql]);
    } else {
        let written = |mut script: fs::File| {
            script.write_all(sql.as_bytes())?;
            script.rewind()?;
            Ok(script)
        };
        let script = tempfile::tempfile().and_then(written);
        let script = script.map_err(StartError::step("write a script for psql".to_owned()))?;
        command.args(["-f", "-"]).stdin(script);
    }
    home::run(command).map(|rows| rows.trim_end().to_owned())
}
