//! Reading what scripts and commands answer. What has another shape than expected was not written by this crate.

use bytes::Bytes;
use redis::Value;

use crate::error::Fault;

/// A list of anything.
pub(crate) fn array(value: Value) -> Result<Vec<Value>, Fault> {
    match value {
        Value::Array(values) | Value::Set(values) => Ok(values),
        other => Err(unexpected("a list", &other)),
    }
}

/// A list whose first element says what the others are.
pub(crate) fn word(value: Value) -> Result<(Bytes, std::vec::IntoIter<Value>), Fault> {
    let mut parts = array(value)?.into_iter();
    let word = bytes(parts.next().unwrap_or(Value::Nil))?;
    Ok((word, parts))
}

/// Bytes.
pub(crate) fn bytes(value: Value) -> Result<Bytes, Fault> {
    optional_bytes(value)?.ok_or_else(|| unexpected("bytes", &Value::Nil))
}

/// Bytes, or nothing.
pub(crate) fn optional_bytes(value: Value) -> Result<Option<Bytes>, Fault> {
    match value {
        Value::BulkString(bytes) => Ok(Some(bytes.into())),
        Value::SimpleString(text) => Ok(Some(text.into())),
        Value::VerbatimString { text, .. } => Ok(Some(text.into())),
        Value::Nil => Ok(None),
        other => Err(unexpected("bytes", &other)),
    }
}

/// A list of bytes.
pub(crate) fn byte_strings(value: Value) -> Result<Vec<Bytes>, Fault> {
    array(value)?.into_iter().map(bytes).collect()
}

/// A whole number, also where it was written as text: numbers above 2^53 and fields of hashes are.
pub(crate) fn integer(value: Value) -> Result<i64, Fault> {
    match value {
        Value::Int(number) => Ok(number),
        Value::BulkString(text) => {
            let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
            number.ok_or_else(|| unexpected("a number", &Value::BulkString(text)))
        }
        other => Err(unexpected("a number", &other)),
    }
}

fn unexpected(what: &str, value: &Value) -> Fault {
    let seen: String = format!("{value:?}").chars().take(100).collect();
    Fault::Corrupt(format!("expected {what} from the server, got {seen}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_either_form() {
        assert_eq!(integer(Value::Int(-7)).ok(), Some(-7));
        assert_eq!(
            integer(Value::BulkString(b"9007199254740993".to_vec())).ok(),
            Some(9_007_199_254_740_993)
        );
        assert!(integer(Value::BulkString(b"1e3".to_vec())).is_err());
        assert!(integer(Value::Nil).is_err());
    }

    #[test]
    fn nothing_is_told_from_no_bytes() {
        assert_eq!(optional_bytes(Value::Nil).ok(), Some(None));
        assert_eq!(optional_bytes(Value::BulkString(Vec::new())).ok(), Some(Some(Bytes::new())));
        assert!(bytes(Value::Nil).is_err());
    }
}
