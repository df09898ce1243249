//! A Redis server for tests.

mod install;
mod settings;
mod shared;

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use rustix::process::Signal;

use super::home::{self, Home};
use super::running::Running;
use super::{PATIENCE, StartError, certificates, free_port, free_port_with_bus, percent_encoded, poll, tail};
pub(super) use install::Install;
pub use settings::{Aof, RedisSettings};
pub use shared::SharedRedis;

/// A server of one's own: to be killed, stopped, paused, filled up or set differently. It and its folder are gone
/// when this is dropped, and also when the process that has it ends in any other way.
///
/// All calls block. What they need from the machine they expect to get; they panic with the end of the server's
/// log if they do not.
#[derive(Debug)]
pub struct RedisServer {
    // The server goes before its folder does.
    running: Mutex<Option<Running>>,
    home: Home,
    install: Install,
    settings: RedisSettings,
    port: u16,
}

impl RedisServer {
    /// The server that all tests of this run share; see [`SharedRedis`].
    pub fn shared() -> &'static SharedRedis {
        SharedRedis::get()
    }

    /// Starts a fresh server and waits until it answers.
    ///
    /// # Panics
    ///
    /// When it cannot be started, with the reason.
    pub fn start(settings: &RedisSettings) -> Self {
        Self::try_start(settings).unwrap_or_else(|error| panic!("no Redis server: {error}"))
    }

    /// Starts a fresh server and waits until it answers.
    ///
    /// # Errors
    ///
    /// When Redis 6.2 or newer is not on this machine, or does not start.
    pub fn try_start(settings: &RedisSettings) -> Result<Self, StartError> {
        let install = Install::find()?;
        let home = Home::new("redis", &["redis", "nobody"], "KILL")?;
        if settings.has_tls() {
            certificates::create(&home)?;
        }
        let mut server =
            Self { running: Mutex::new(None), home, install, settings: settings.clone(), port: 0 };
        // Another process may take the port before the server does.
        for attempts_left in (0..5).rev() {
            server.port = if settings.is_node() { free_port_with_bus() } else { free_port() };
            settings.write(&server.home, server.port)?;
            match server.launch() {
                Ok(()) => break,
                Err(error) if attempts_left == 0 || !server.home.log().contains("already in use") => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        Ok(server)
    }

    /// Where to connect: as the ACL user if there is one, with the password if one is needed.
    pub fn url(&self) -> String {
        let scheme = if self.settings.has_tls() { "rediss" } else { "redis" };
        format!("{scheme}://{}127.0.0.1:{}", self.credentials(), self.port)
    }

    /// The same server through its unix socket.
    pub fn socket_path(&self) -> PathBuf {
        settings::socket(&self.home)
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
    /// Without [`RedisSettings::tls`].
    pub fn ca_path(&self) -> PathBuf {
        assert!(self.settings.has_tls(), "start the server with RedisSettings::tls to have a certificate");
        certificates::authority(&self.home)
    }

    /// The process id.
    ///
    /// # Panics
    ///
    /// When the server is stopped.
    pub fn pid(&self) -> u32 {
        self.running().as_ref().expect("the server is not stopped").id()
    }

    /// Whether it was started and neither killed nor stopped since.
    pub fn is_running(&self) -> bool {
        self.running().is_some()
    }

    /// Kills the server without warning, those children included that rewrite its files, and waits until they
    /// are gone.
    pub fn kill(&self) {
        if let Some(running) = self.running().take() {
            running.kill();
            self.home.forget();
        }
    }

    /// Stops the server in an orderly way, which saves what its settings say.
    pub fn stop(&self) {
        if let Some(running) = self.running().take() {
            running.signal(Signal::CONT);
            running.end(Signal::TERM);
            self.home.forget();
        }
    }

    /// Starts the server again on the same content and port and waits until it answers. One that runs is
    /// stopped first.
    pub fn restart(&self) {
        self.stop();
        self.launch().unwrap_or_else(|error| panic!("the Redis server does not come back: {error}"));
    }

    /// Freezes the server: connections stay and get no answer.
    pub fn pause(&self) {
        self.running().as_ref().expect("the server is not stopped").signal(Signal::STOP);
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        self.running().as_ref().expect("the server is not stopped").signal(Signal::CONT);
    }

    /// Runs a command with all rights and answers what `redis-cli` prints: plain text, one element per line.
    ///
    /// # Panics
    ///
    /// When the server refuses it.
    pub fn command(&self, words: &[&str]) -> String {
        self.try_command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Runs a command with all rights.
    ///
    /// # Errors
    ///
    /// When the server refuses it, or is not there.
    pub fn try_command(&self, words: &[&str]) -> Result<String, StartError> {
        let mut command = self.cli();
        command.arg("-e").args(words);
        home::run(command).map(|text| text.trim_end().to_owned())
    }

    /// One line of `INFO`, as of `used_memory`.
    pub fn info(&self, name: &str) -> Option<String> {
        field(&self.command(&["INFO", "everything"]), name).map(ToOwned::to_owned)
    }

    /// The end of the server's log, for the text of a failure.
    pub fn log(&self) -> String {
        tail(&self.home.log()).to_owned()
    }

    /// `redis-cli` as an administrator of this server, through the socket, which needs no TLS.
    fn cli(&self) -> Command {
        let mut command = Command::new(self.install.cli());
        home::forget_surroundings(&mut command);
        command.arg("-s").arg(self.socket_path());
        if let Some((user, password)) = self.settings.administrator() {
            command.args(["--user", user, "--no-auth-warning"]).env("REDISCLI_AUTH", password);
        }
        command
    }

    fn credentials(&self) -> String {
        let Some((user, password)) = self.settings.client() else { return String::new() };
        format!("{}:{}@", percent_encoded(user), percent_encoded(password))
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().expect("no holder of the lock panics")
    }

    fn launch(&self) -> Result<(), StartError> {
        let mut command = self.home.command(self.install.server());
        command.arg(settings::path(&self.home));
        let mut running = self.home.serve(command)?;
        let is_ready = poll(PATIENCE, || {
            if running.ended().is_some() {
                return Some(false);
            }
            // Another server there has another process id.
            let said = self.try_command(&["INFO", "everything"]).ok()?;
            let is_ours = field(&said, "process_id") == Some(&running.id().to_string());
            (is_ours && field(&said, "loading") == Some("0")).then_some(true)
        });
        if is_ready == Some(true) {
            *self.running() = Some(running);
            return Ok(());
        }
        let what = match running.ended() {
            Some(status) => format!("the server ended at once ({status})"),
            None => format!("the server is not ready after {} s", PATIENCE.as_secs()),
        };
        running.kill();
        self.home.forget();
        Err(StartError::Refused { what, said: self.log() })
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of the Redis server on port {} ends with:\n{}", self.port, self.log());
        }
        // What it holds is not needed any more.
        self.kill();
    }
}

/// The value of a line `name:value`.
pub(super) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}
