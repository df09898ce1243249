//! Bytes in JSON, for `#[serde(with = ..)]`: text where they are text, else `{"base64": ".."}`. So a payload that is JSON
//! stays readable on its way, and one that is not is kept to the byte.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form<'t> {
    Text(#[serde(borrow)] Cow<'t, str>),
    Coded { base64: Cow<'t, str> },
}

fn form(bytes: &[u8]) -> Form<'_> {
    match str::from_utf8(bytes) {
        Ok(text) => Form::Text(text.into()),
        Err(_) => Form::Coded { base64: STANDARD.encode(bytes).into() },
    }
}

impl Form<'_> {
    fn bytes<E: serde::de::Error>(self) -> Result<Bytes, E> {
        match self {
            Self::Text(text) => Ok(text.into_owned().into()),
            Self::Coded { base64 } => match STANDARD.decode(base64.as_bytes()) {
                Ok(bytes) => Ok(bytes.into()),
                Err(error) => Err(E::custom(format_args!("bytes that are not base64: {error}"))),
            },
        }
    }
}

/// Writes bytes.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
    form(bytes).serialize(to)
}

/// Reads them.
///
/// # Errors
/// When it is neither text nor base64.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
    Form::deserialize(from).map_err(|_| D::Error::custom(WANTED))?.bytes()
}

const WANTED: &str = "bytes are a text, or {\"base64\": \"..\"}";

/// Bytes that may be missing.
pub mod option {
    use super::{Bytes, Deserialize, Deserializer, Form, Serialize, Serializer, form};

    /// Writes bytes, or null.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &Option<Bytes>, to: S) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(form).serialize(to)
    }

    /// Reads them.
    ///
    /// # Errors
    /// When it is neither text, base64 nor null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bytes>, D::Error> {
        Option::<Form<'de>>::deserialize(from)?.map(Form::bytes).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Both {
        #[serde(with = "crate::stored::bytes")]
        one: Bytes,
        #[serde(default, with = "option", skip_serializing_if = "Option::is_none")]
        other: Option<Bytes>,
    }

    #[test]
    fn what_is_text_stays_text_and_all_else_is_kept_to_the_byte() {
        for (one, text) in [
            (&b"{\"a\":1}"[..], r#"{"one":"{\"a\":1}"}"#),
            (b"", r#"{"one":""}"#),
            (b"a\0\xff", r#"{"one":{"base64":"YQD/"}}"#),
        ] {
            let both = Both { one: Bytes::copy_from_slice(one), other: None };
            assert_eq!(serde_json::to_string(&both).unwrap(), text);
            assert_eq!(serde_json::from_str::<Both>(text).unwrap(), both);
            let both = Both { other: Some(both.one.clone()), one: both.one };
            let text = serde_json::to_vec(&both).unwrap();
            assert_eq!(serde_json::from_slice::<Both>(&text).unwrap(), both);
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in [r#"{"one":7}"#, r#"{"one":{"base64":"!"}}"#, r#"{"one":{"hex":"00"}}"#, "{}"] {
            assert!(serde_json::from_str::<Both>(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::from_str::<Both>(r#"{"one":"","other":null}"#).unwrap().other, None);
    }
}
