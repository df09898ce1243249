//! A store in an SQLite file of its own.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use sqlx::Connection;
use tempfile::TempDir;
use windlass_store_sqlite::SqliteStore;

use super::Scene;

pub(crate) struct File {
    scene: Scene,
    folder: TempDir,
}

impl File {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/jobs.db", folder.path().display());
        let store = Arc::new(SqliteStore::open(&url).await.unwrap());
        let file = Self { scene: Scene { store }, folder };
        file.rusqlite().execute_batch("CREATE TABLE ledger (amount BIGINT NOT NULL)").unwrap();
        file
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("jobs.db")
    }

    pub(crate) fn rusqlite(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }

    pub(crate) async fn sqlx(&self) -> sqlx::SqliteConnection {
        sqlx::SqliteConnection::connect(&format!("sqlite://{}", self.path().display())).await.unwrap()
    }

    /// The sum of the ledger, as committed.
    pub(crate) fn ledger(&self) -> i64 {
        let sum = "SELECT coalesce(sum(amount), 0) FROM ledger";
        self.rusqlite().query_row(sum, [], |row| row.get(0)).unwrap()
    }
}

impl Deref for File {
    type Target = Scene;
    fn deref(&self) -> &Scene {
        &self.scene
    }
}
