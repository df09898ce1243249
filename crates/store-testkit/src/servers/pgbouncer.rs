//! A PgBouncer before a PostgreSQL server of the tests.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use rustix::process::Signal;

use super::home::Home;
use super::postgres::PostgresServer;
use super::running::Running;
use super::{PATIENCE, StartError, free_port, poll, tail};

/// When a client gives back the server connection that it was lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// When it leaves.
    Session,
    /// After each transaction.
    Transaction,
    /// After each statement; transactions of several are refused.
    Statement,
}

/// A pooler of one's own. It is gone when this is dropped; the server behind it stays.
#[derive(Debug)]
pub struct PgBouncer {
    // The pooler goes before its folder does.
    running: Mutex<Option<Running>>,
    home: Home,
    program: PathBuf,
    url: String,
    port: u16,
}

impl PgBouncer {
    /// Starts a pooler and waits until it listens. It lends at most 20 server connections.
    ///
    /// # Panics
    ///
    /// When it cannot be started, with the reason.
    pub fn before(server: &PostgresServer, mode: PoolMode) -> Self {
        Self::try_before(server, mode).unwrap_or_else(|error| panic!("no PgBouncer: {error}"))
    }

    /// Starts a pooler and waits until it listens.
    ///
    /// # Errors
    ///
    /// When PgBouncer is not on this machine, or does not start.
    pub fn try_before(server: &PostgresServer, mode: PoolMode) -> Result<Self, StartError> {
        let program = find()?;
        // Another process may take the port before the pooler does.
        Self::attempt(program.clone(), server, mode).or_else(|_| Self::attempt(program, server, mode))
    }

    fn attempt(program: PathBuf, server: &PostgresServer, mode: PoolMode) -> Result<Self, StartError> {
        let home = Home::new("pgbouncer", &["postgres", "nobody"], "TERM")?;
        let port = free_port();
        let bouncer = Self { running: Mutex::new(None), home, program, url: server.url_at(port), port };
        bouncer.write_settings(server, mode)?;
        bouncer.launch()?;
        Ok(bouncer)
    }

    /// Where to connect, as the owner of the server's database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The port, which [`restart`](Self::restart) keeps.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id.
    ///
    /// # Panics
    ///
    /// When the pooler is stopped.
    pub fn pid(&self) -> u32 {
        self.running().as_ref().expect("the pooler is not stopped").id()
    }

    /// Kills the pooler without warning and waits until it is gone.
    pub fn kill(&self) {
        if let Some(running) = self.running().take() {
            running.kill();
            self.home.forget();
        }
    }

    /// Starts the pooler again on the same port and waits until it listens. One that runs is killed first.
    pub fn restart(&self) {
        self.kill();
        self.launch().unwrap_or_else(|error| panic!("the PgBouncer does not come back: {error}"));
    }

    /// From now on it takes settings that come with a connection, and hands none of them on. Restarts it.
    ///
    /// # Panics
    ///
    /// When its settings cannot be changed.
    pub fn ignore_settings(&self) {
        const IGNORED: &str = "ignore_startup_parameters = ";
        let path = self.settings_path();
        let settings = fs::read_to_string(&path).expect("the pooler has settings");
        let settings = settings.replace(IGNORED, &format!("{IGNORED}options, "));
        fs::write(path, settings).expect("the pooler's settings can be written");
        self.restart();
    }

    /// The end of the pooler's log, for the text of a failure.
    pub fn log(&self) -> String {
        tail(&self.home.log()).to_owned()
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().expect("no holder of the lock panics")
    }

    fn write_settings(&self, server: &PostgresServer, mode: PoolMode) -> Result<(), StartError> {
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        };
        let server_tls = if server.settings().has_tls() { "require" } else { "disable" };
        let users = self.home.path().join("users.txt");
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\nadmin_users = windlass\n\
             pool_mode = {mode}\nserver_tls_sslmode = {server_tls}\n\
             default_pool_size = 20\nmax_client_conn = 1000\n\
             server_login_retry = 1\nignore_startup_parameters = extra_float_digits\n",
            server.port(),
            self.port,
            users.display(),
        );
        let secret = server.settings().secret().unwrap_or_default().replace('"', "\"\"");
        fs::write(users, format!("\"windlass\" \"{secret}\"\n\"postgres\" \"\"\n"))
            .and_then(|()| fs::write(self.settings_path(), settings))
            .map_err(StartError::step("write the pooler's settings"))
    }

    fn settings_path(&self) -> PathBuf {
        self.home.path().join("pgbouncer.ini")
    }

    fn launch(&self) -> Result<(), StartError> {
        let mut command = self.home.command(&self.program);
        command.arg(self.settings_path());
        let mut running = self.home.serve(command)?;
        let is_up = poll(PATIENCE, || match running.ended() {
            Some(_) => Some(false),
            None => TcpStream::connect(("127.0.0.1", self.port)).is_ok().then_some(true),
        });
        if is_up == Some(true) {
            *self.running() = Some(running);
            return Ok(());
        }
        running.end(Signal::KILL);
        self.home.forget();
        Err(StartError::Refused { what: "the pooler does not listen".into(), said: self.log() })
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the PgBouncer's log ends with:\n{}", self.log());
        }
        self.kill();
    }
}

/// Packages put it where only root looks.
fn find() -> Result<PathBuf, StartError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join("pgbouncer"))
        .find(|program| program.is_file())
        .ok_or_else(|| StartError::Missing {
            program: "pgbouncer",
            looked: "looked along PATH and in /usr/sbin".into(),
            install: "pgbouncer (Debian: apt-get install pgbouncer)",
        })
}
