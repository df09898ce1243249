//! Values and rows on their way over a line.

use bytes::Bytes;

use super::SqlError;

/// A parameter or a column. What is absent is `NULL`; a `NULL` in a row may come as any of the kinds that have
/// one, for not every database says of which type it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An integer.
    Int(Option<i64>),
    /// A text.
    Text(Option<String>),
    /// Bytes.
    Bytes(Option<Bytes>),
    /// A UUID. SQLite has none: there it is a blob of 16 bytes.
    Uuid([u8; 16]),
    /// An array of integers. SQLite has no arrays.
    Ints(Vec<Option<i64>>),
    /// An array of texts.
    Texts(Vec<Option<String>>),
    /// An array of byte strings.
    Blobs(Vec<Option<Bytes>>),
    /// An array of UUIDs.
    Uuids(Vec<[u8; 16]>),
}

impl Value {
    /// Whether it is `NULL`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Int(None) | Self::Text(None) | Self::Bytes(None))
    }

    /// What it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            value if value.is_null() => "null",
            Self::Int(_) => "integer",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::Uuid(_) => "uuid",
            Self::Ints(_) | Self::Texts(_) | Self::Blobs(_) | Self::Uuids(_) => "array",
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(Some(value.to_owned()))
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(Some(value))
    }
}

impl From<Bytes> for Value {
    fn from(value: Bytes) -> Self {
        Self::Bytes(Some(value))
    }
}

impl From<[u8; 16]> for Value {
    fn from(value: [u8; 16]) -> Self {
        Self::Uuid(value)
    }
}

impl From<Option<String>> for Value {
    fn from(value: Option<String>) -> Self {
        Self::Text(value)
    }
}

impl From<Option<Bytes>> for Value {
    fn from(value: Option<Bytes>) -> Self {
        Self::Bytes(value)
    }
}

/// A row of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(Vec<Value>);

impl Row {
    /// A row of these columns.
    pub fn new(columns: Vec<Value>) -> Self {
        Self(columns)
    }

    /// Its columns.
    pub fn columns(&self) -> &[Value] {
        &self.0
    }

    /// An integer that is there.
    pub fn int(&self, column: usize) -> Result<i64, SqlError> {
        self.optional_int(column)?.ok_or_else(|| self.missing(column))
    }

    /// An integer or `NULL`.
    pub fn optional_int(&self, column: usize) -> Result<Option<i64>, SqlError> {
        match self.at(column)? {
            Value::Int(value) => Ok(*value),
            other => other.expect_null(column, "an integer"),
        }
    }

    /// A text that is there.
    pub fn text(&self, column: usize) -> Result<&str, SqlError> {
        self.optional_text(column)?.ok_or_else(|| self.missing(column))
    }

    /// A text or `NULL`.
    pub fn optional_text(&self, column: usize) -> Result<Option<&str>, SqlError> {
        match self.at(column)? {
            Value::Text(value) => Ok(value.as_deref()),
            other => other.expect_null(column, "a text"),
        }
    }

    /// Bytes that are there.
    pub fn bytes(&self, column: usize) -> Result<&Bytes, SqlError> {
        self.optional_bytes(column)?.ok_or_else(|| self.missing(column))
    }

    /// Bytes or `NULL`.
    pub fn optional_bytes(&self, column: usize) -> Result<Option<&Bytes>, SqlError> {
        match self.at(column)? {
            Value::Bytes(value) => Ok(value.as_ref()),
            other => other.expect_null(column, "bytes"),
        }
    }

    /// A UUID that is there; a blob of 16 bytes is one as well.
    pub fn uuid(&self, column: usize) -> Result<[u8; 16], SqlError> {
        match self.at(column)? {
            Value::Uuid(value) => Ok(*value),
            Value::Bytes(Some(value)) if value.len() == 16 => {
                Ok(value[..].try_into().expect("the length has been tested"))
            }
            other if other.is_null() => Err(self.missing(column)),
            other => Err(other.mismatch(column, "a uuid")),
        }
    }

    fn at(&self, column: usize) -> Result<&Value, SqlError> {
        let short = || SqlError::Shape(format!("a row has {} columns, none at {column}", self.0.len()));
        self.0.get(column).ok_or_else(short)
    }

    fn missing(&self, column: usize) -> SqlError {
        SqlError::Shape(format!("column {column} is null, which it must not be"))
    }
}

impl Value {
    fn expect_null<T>(&self, column: usize, expected: &str) -> Result<Option<T>, SqlError> {
        if self.is_null() { Ok(None) } else { Err(self.mismatch(column, expected)) }
    }

    fn mismatch(&self, column: usize, expected: &str) -> SqlError {
        SqlError::Shape(format!("column {column} is {}, expected {expected}", self.kind()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_fits_every_optional_and_nothing_else() {
        let row = Row::new(vec![Value::Int(None)]);
        assert_eq!(row.optional_int(0).unwrap(), None);
        assert_eq!(row.optional_text(0).unwrap(), None);
        assert_eq!(row.optional_bytes(0).unwrap(), None);
        assert_eq!(row.int(0).unwrap_err().to_string(), "column 0 is null, which it must not be");
        assert!(row.uuid(0).is_err());
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let row = Row::new(vec![Value::from("seven"), Value::Bytes(Some(Bytes::from_static(&[7; 16])))]);
        assert_eq!(row.int(0).unwrap_err().to_string(), "column 0 is text, expected an integer");
        assert_eq!(row.text(5).unwrap_err().to_string(), "a row has 2 columns, none at 5");
        assert_eq!(row.uuid(1).unwrap(), [7; 16]);
    }
}
