//! Whether a transaction is in the store's own database.
//!
//! A number that was drawn when the schema was made tells stores apart, and a copy of a database has the same one. So the
//! database and the table are compared as well, by the numbers that the server has given them.

use windlass_core::StoreError;
use windlass_core::sql::{Line, SqlError};
use windlass_core::store::StoreResult;

use super::{misread, run};
use crate::PostgresStore;
use crate::connect::Call;
use crate::error::Fault;
use crate::options::quoted;
use crate::row::at;
use crate::session::Session;

/// What tells a store from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    number: i64,
    database: i64,
    table: i64,
}

/// Asks without aborting the transaction where there is no such table.
fn ask_where(schema: &str) -> String {
    format!(
        "SELECT to_regclass('{}.settings')::oid::int8, \
         (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())::int8",
        quoted(schema)
    )
}

fn ask_number(schema: &str) -> String {
    format!("SELECT value FROM {}.settings WHERE name = 'identity'", quoted(schema))
}

impl PostgresStore {
    /// Fails unless the line leads to this store.
    pub(super) async fn check_place(&self, line: &mut Line) -> StoreResult<()> {
        let found = self.identity_over(line).await?;
        let known = self.known_identity();
        if found.is_some() && found == known {
            return Ok(());
        }
        // Asked again where it is another one than before: the store may have been moved meanwhile.
        if found.is_some() && found == Some(self.identity().await?) {
            return Ok(());
        }
        Err(StoreError::Transaction(format!(
            "the transaction is not in the database of the store ({}): begin it on a connection to that database",
            self.about.place
        )))
    }

    /// The identity of the store that the transaction would write to, if there is one.
    async fn identity_over(&self, line: &mut Line) -> StoreResult<Option<Identity>> {
        let schema = &self.remote.connections().options.schema;
        let place = run(line, &ask_where(schema), Vec::new()).await?;
        let place = place.first().map(|row| Ok((row.optional_int(0)?, row.optional_int(1)?)));
        let place = place.transpose().map_err(|error: SqlError| misread(error))?;
        let Some((Some(table), Some(database))) = place else { return Ok(None) };
        let number = run(line, &ask_number(schema), Vec::new()).await?;
        let number = number.first().map(|row| row.int(0)).transpose().map_err(misread)?;
        Ok(number.map(|number| Identity { number, database, table }))
    }

    fn known_identity(&self) -> Option<Identity> {
        *self.identity.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn identity(&self) -> StoreResult<Identity> {
        let schema = self.remote.connections().options.schema.clone();
        let identity = async move |_, session: Session| identity(&session, &schema).await;
        let identity = self.remote.call(Call::READ, identity).await?;
        *self.identity.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(identity);
        Ok(identity)
    }
}

async fn identity(session: &Session, schema: &str) -> Result<Identity, Fault> {
    let none = || Fault::Corrupt("the store has no identity".to_owned());
    let place = session.query(&ask_where(schema), &[]).await?;
    let place = place.first().ok_or_else(none)?;
    let (table, database) = (at::<Option<i64>>(place, 0)?, at::<Option<i64>>(place, 1)?);
    let number = session.query(&ask_number(schema), &[]).await?;
    let number = at(number.first().ok_or_else(none)?, 0)?;
    Ok(Identity { number, database: database.ok_or_else(none)?, table: table.ok_or_else(none)? })
}
