//! What an answer means that is not the one that was asked for.
//!
//! Only what the server itself says of a call is believed: that it was refused, or that it did not take effect. What comes
//! from something before it (a proxy that had no answer in time) leaves a write unknown.

use hyper::StatusCode;
use serde::Deserialize;
use windlass_core::StoreError;
use windlass_store_server::error::{Fault, Unreachable};

use crate::wire::WireError;

/// A problem as the server writes it.
#[derive(Debug, Default, Deserialize)]
struct Explained {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    remedy: Option<String>,
    /// The store's own error.
    #[serde(default)]
    store: Option<WireError>,
}

/// The longest text of a server that is passed on.
const TEXT_MAX: usize = 500;

pub(super) fn fault(status: StatusCode, body: &[u8], has_token: bool) -> Fault {
    let said: Explained = serde_json::from_slice(body).unwrap_or_default();
    if let Some(problem) = said.store {
        return problem.into_error().into();
    }
    let text = [said.detail, said.remedy].into_iter().flatten().collect::<Vec<_>>().join(": ");
    let text: String = text.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect();
    match (status, said.code.as_deref()) {
        (StatusCode::UNAUTHORIZED, _) => {
            let remedy = "name the file that holds one with --token-file, or by WINDLASS_TOKEN_FILE";
            let wrong =
                if has_token { "the server does not know this token" } else { "the server wants a token" };
            StoreError::Address(format!("{wrong}: {remedy}")).into()
        }
        (StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, _) => {
            let text = "there is no Windlass store at this URL, or it is of another version: use the URL of a server";
            StoreError::Address(text.to_owned()).into()
        }
        (_, Some("busy" | "unavailable" | "timeout" | "too_many")) | (StatusCode::TOO_MANY_REQUESTS, _) => {
            Unreachable::because("the server took no call", describe(status, &text)).into()
        }
        (StatusCode::REQUEST_TIMEOUT, _) => Fault::Lost(describe(status, &text)),
        _ if status.is_redirection() => {
            StoreError::Address("the server sends this elsewhere: use the URL that it names".to_owned())
                .into()
        }
        _ if status.is_client_error() => StoreError::Refused(describe(status, &text)).into(),
        _ => Fault::Lost(describe(status, &text)),
    }
}

fn describe(status: StatusCode, text: &str) -> String {
    if text.is_empty() { format!("the server answered {status}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use windlass_core::StoreErrorKind;
    use windlass_store_server::error::Effect;

    use super::*;

    fn kind(status: u16, body: &str, effect: Effect) -> StoreErrorKind {
        let status = StatusCode::from_u16(status).unwrap();
        fault(status, body.as_bytes(), true).into_error(effect).kind()
    }

    #[test]
    fn only_the_server_itself_says_that_nothing_has_happened() {
        let (write, read) = (Effect::Write, Effect::Read);
        for (status, body) in [(502, ""), (503, "<html>"), (504, "{}"), (500, ""), (408, ""), (520, "no")] {
            assert_eq!(kind(status, body, write), StoreErrorKind::Unknown, "{status} {body}");
            assert_eq!(kind(status, body, read), StoreErrorKind::Unavailable, "{status} {body}");
        }
        for body in [r#"{"code":"busy"}"#, r#"{"code":"unavailable"}"#, r#"{"code":"timeout"}"#] {
            assert_eq!(kind(503, body, write), StoreErrorKind::Unavailable, "{body}");
        }
        assert_eq!(kind(503, r#"{"code":"unknown"}"#, write), StoreErrorKind::Unknown);
        assert_eq!(kind(429, "", write), StoreErrorKind::Unavailable);
    }

    #[test]
    fn what_a_person_has_to_mend_is_not_tried_again() {
        for status in [401, 404, 405, 301, 308] {
            assert_eq!(kind(status, "", Effect::Write), StoreErrorKind::Fatal, "{status}");
        }
        for status in [400, 403, 409, 413, 421, 422] {
            assert_eq!(kind(status, "", Effect::Write), StoreErrorKind::Refused, "{status}");
        }
    }

    #[test]
    fn an_error_of_the_store_is_taken_as_it_is() {
        let error = StoreError::QueueFull { queue: "q".parse().unwrap(), capacity: 1, waiting: 1 };
        let store = serde_json::to_string(&WireError::of(&error)).unwrap();
        let came = fault(StatusCode::TOO_MANY_REQUESTS, format!(r#"{{"store":{store}}}"#).as_bytes(), true);
        assert_eq!(came.into_error(Effect::Write).to_string(), error.to_string());
    }
}
