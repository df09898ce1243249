//! A row of a user's own table that is changed only while it is as it was read: by a column that counts its versions.

use windlass_core::StoreError;
use windlass_core::sql::{Dialect, SqlError, Value, line};
use windlass_core::store::StoreResult;

use crate::{BlockingTx, Tx, wait};

/// A change of one row of yours that is made only if no other writer was faster: compare and set on a column that counts.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "rusqlite")] {
/// use windlass_tx::Versioned;
///
/// let mut tx = rusqlite::Connection::open_in_memory()?;
/// tx.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, cents INTEGER, version INTEGER NOT NULL)", [])?;
/// tx.execute("INSERT INTO accounts VALUES (42, 100, 7)", [])?;
/// let change = || Versioned::row("accounts", "id", 42).version(7).set("cents", 250);
/// assert_eq!(change().update_blocking(&mut tx)?, Some(8));
/// assert_eq!(change().update_blocking(&mut tx)?, None, "it has changed since: read again and decide anew");
/// # }
/// # Ok(())
/// # }
/// ```
///
/// Values are integers, texts, bytes and UUIDs. On PostgreSQL they are sent as `int8`, `text`, `bytea` and `uuid`; a column of
/// another type takes them if the server converts them on assignment, as other integers and `varchar` do.
#[derive(Debug, Clone)]
#[must_use = "nothing is written before `update`"]
pub struct Versioned {
    table: String,
    key: (String, Value),
    version: (String, i64),
    set: Vec<(String, Value)>,
}

impl Versioned {
    /// The row of a table, which may be named with its schema, that has this value in its key column. Its version is in the column
    /// `version`, and 0 is expected there until [`version`](Self::version) says another one.
    pub fn row(table: impl Into<String>, key: impl Into<String>, value: impl Into<Value>) -> Self {
        let (key, version) = ((key.into(), value.into()), ("version".to_owned(), 0));
        Self { table: table.into(), key, version, set: Vec::new() }
    }

    /// The version that was read.
    pub fn version(mut self, version: i64) -> Self {
        self.version.1 = version;
        self
    }

    /// The column that counts versions, instead of `version`.
    pub fn version_column(mut self, column: impl Into<String>) -> Self {
        self.version.0 = column.into();
        self
    }

    /// What a column has from then on.
    pub fn set(mut self, column: impl Into<String>, value: impl Into<Value>) -> Self {
        self.set.push((column.into(), value.into()));
        self
    }

    /// Changes the row and counts its version up. Answers the new version, or nothing if the row has another version by now or is
    /// gone: then nothing was changed, and the transaction goes on.
    ///
    /// # Errors
    /// When a name is not one, when the key column has the value in several rows, and what the database says. Roll back then.
    pub async fn update<T: Tx>(self, tx: &mut T) -> StoreResult<Option<i64>> {
        let sql = self.text(T::DIALECT)?;
        let mut values: Vec<_> = self.set.into_iter().map(|(_, value)| value).collect();
        values.extend([self.key.1, self.version.1.into()]);
        let (mut line, operator) = line();
        let conversation = async {
            let rows = line.run(&sql, values).await.map_err(told)?;
            match &rows[..] {
                [] => Ok(None),
                [row] => row.int(0).map(Some).map_err(told),
                many => Err(StoreError::Transaction(format!(
                    "{} rows were changed instead of one: roll back, and name a column that is unique",
                    many.len()
                ))),
            }
        };
        tx.converse(operator, conversation).await
    }

    /// As [`update`](Self::update), for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn update_blocking<T: BlockingTx>(self, tx: &mut T) -> StoreResult<Option<i64>> {
        wait(self.update(tx))
    }

    fn text(&self, dialect: Dialect) -> StoreResult<String> {
        let mark = if dialect == Dialect::Postgres { '$' } else { '?' };
        let mut sets = Vec::with_capacity(self.set.len() + 1);
        for (place, (column, _)) in (1..).zip(&self.set) {
            sets.push(format!("{} = {mark}{place}", quoted(column)?));
        }
        let (key, version) = (quoted(&self.key.0)?, quoted(&self.version.0)?);
        let names = self.table.split('.').map(quoted).collect::<StoreResult<Vec<_>>>()?;
        let table = names.join(".");
        // SQLite reads an unknown name in quotes as a text, unless the table is named with it.
        let of = names.last().map_or("", String::as_str);
        sets.push(format!("{version} = {of}.{version} + 1"));
        let (at, next) = (self.set.len() + 1, self.set.len() + 2);
        Ok(format!(
            "UPDATE {table} SET {} WHERE {of}.{key} = {mark}{at} AND {of}.{version} = {mark}{next} RETURNING {of}.{version}",
            sets.join(", ")
        ))
    }
}

/// A name as statements have it. What is not a plain one is refused: a name is never to come from outside of the program.
fn quoted(name: &str) -> StoreResult<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match !name.is_empty() && name.len() <= 63 && name.chars().all(is_plain) {
        true => Ok(format!("\"{name}\"")),
        false => Err(StoreError::Transaction(format!(
            "{name:?} is not a plain name of a table or a column: use ASCII letters, digits and underscores, as they are stored"
        ))),
    }
}

fn told(error: SqlError) -> StoreError {
    match error {
        SqlError::Broken { text, source } => StoreError::Unknown { what: text, source },
        other => StoreError::Transaction(format!("the row was not changed: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_what_they_change() {
        let change = Versioned::row("shop.accounts", "id", 1).set("cents", 5).set("name", "ada");
        assert_eq!(
            change.text(Dialect::Postgres).unwrap(),
            "UPDATE \"shop\".\"accounts\" SET \"cents\" = $1, \"name\" = $2, \"version\" = \"accounts\".\"version\" + 1 \
             WHERE \"accounts\".\"id\" = $3 AND \"accounts\".\"version\" = $4 RETURNING \"accounts\".\"version\""
        );
        let plain = Versioned::row("t", "k", "x").version_column("rev");
        assert_eq!(
            plain.text(Dialect::Sqlite).unwrap(),
            "UPDATE \"t\" SET \"rev\" = \"t\".\"rev\" + 1 WHERE \"t\".\"k\" = ?1 AND \"t\".\"rev\" = ?2 \
             RETURNING \"t\".\"rev\""
        );
    }

    #[test]
    fn names_are_plain() {
        for bad in ["", "a b", "a\"b", "a;b", "ä", &"x".repeat(64)] {
            assert!(Versioned::row(bad, "k", 1).text(Dialect::Sqlite).is_err(), "{bad}");
            assert!(Versioned::row("t", "k", 1).set(bad, 1).text(Dialect::Sqlite).is_err(), "{bad}");
        }
    }
}
