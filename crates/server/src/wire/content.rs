//! Payloads, outputs, reports and values: bytes whose meaning only their handler knows. As JSON where they are JSON, digit by
//! digit, as text where they are text, and otherwise in Base64; the encoding stands beside them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::Bytes;

use crate::problem::Problem;

/// How a content that stands beside it is to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Encoding {
    /// It is the JSON itself.
    #[default]
    Json,
    /// It is other text.
    Utf8,
    /// It is other bytes, in Base64.
    Base64,
    /// Its queue does not show it unless it is revealed.
    Masked,
    /// It is too large for a list; the job on its own has it.
    LeftOut,
}

/// Contents larger than this are left out of lists.
pub(crate) const LISTED_MAX: usize = 4 << 10;

/// A content as it is answered.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) value: Option<Box<RawValue>>,
    pub(crate) encoding: Encoding,
}

impl Content {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let text = |text: &str| serde_json::value::to_raw_value(text).ok();
        let (value, encoding) = match std::str::from_utf8(bytes) {
            Err(_) => (text(&BASE64_STANDARD.encode(bytes)), Encoding::Base64),
            Ok(given) => match serde_json::from_str::<Box<RawValue>>(given) {
                Ok(json) => (Some(json), Encoding::Json),
                Err(_) => (text(given), Encoding::Utf8),
            },
        };
        Self { value, encoding }
    }

    /// Only that there is one.
    pub(crate) fn without(encoding: Encoding) -> Self {
        Self { value: None, encoding }
    }

    /// As lists have it.
    pub(crate) fn listed(bytes: &[u8]) -> Self {
        if bytes.len() > LISTED_MAX { Self::without(Encoding::LeftOut) } else { Self::of(bytes) }
    }
}

/// The bytes of a content that was sent.
pub(crate) fn bytes(at: &str, value: Option<&RawValue>, encoding: Encoding) -> Result<Bytes, Problem> {
    let text = || {
        let given = value.map_or("\"\"", RawValue::get);
        serde_json::from_str::<String>(given)
            .map_err(|_other| Problem::invalid(at, "with this encoding it is a text in double quotes"))
    };
    match encoding {
        Encoding::Json => Ok(Bytes::copy_from_slice(value.map_or("null", RawValue::get).as_bytes())),
        Encoding::Utf8 => Ok(text()?.into_bytes().into()),
        Encoding::Base64 => match BASE64_STANDARD.decode(text()?) {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) => Err(Problem::invalid(at, format!("it is not Base64: {error}"))),
        },
        Encoding::Masked | Encoding::LeftOut => {
            Err(Problem::invalid(format!("{at}_encoding"), "use json, utf8 or base64"))
        }
    }
}
