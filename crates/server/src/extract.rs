//! What handlers take from a request: a JSON body, parameters of the query, parts of the path. Each is checked before the
//! handler runs, and refused with the place of what is wrong.

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use windlass_core::Bytes;

use crate::app::{App, Held};
use crate::problem::{Code, Problem};

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

/// A JSON body with many things in it, which may be larger. It counts as held while the second part lives.
pub(crate) struct Bulk<T>(pub(crate) T, pub(crate) Held);

/// A JSON body that may be left out.
pub(crate) struct MaybeBody<T>(pub(crate) T);

/// A JSON body as it came, for who reads it in another form. It counts as held while the second part lives.
pub(crate) struct Raw(pub(crate) Bytes, pub(crate) Held);

/// The parameters of the query.
pub(crate) struct Query<T>(pub(crate) T);

/// A part of the path, or several.
pub(crate) struct At<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let (bytes, _held) = read(request, app, app.bounds().body).await?;
        parse(&bytes, app.bounds().depth).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<App> for Bulk<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let (bytes, held) = read(request, app, app.bounds().body_bulk).await?;
        Ok(Self(parse(&bytes, app.bounds().depth)?, held))
    }
}

impl FromRequest<App> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let (bytes, held) = read(request, app, app.bounds().bodies / 2).await?;
        Ok(Self(bytes, held))
    }
}

impl<T: DeserializeOwned + Default> FromRequest<App> for MaybeBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let declared = check_type(request.headers());
        let (bytes, _held) = read(request, app, app.bounds().body).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        declared?;
        parse(&bytes, app.bounds().depth).map(Self)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        query(&parts.uri).map(Self)
    }
}

fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    axum::extract::Query::<T>::try_from_uri(uri)
        .map(|query| query.0)
        .map_err(|rejection| Code::Invalid.because(format!("the query: {}", source_of(&rejection))))
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0))
            .map_err(|rejection| Code::Invalid.because(format!("the path: {}", rejection.body_text())))
    }
}

/// The innermost cause, which says most.
fn source_of(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Refuses what is not declared as JSON: a form of another site could send that without being asked.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(Code::MediaType
            .because("the body is encoded, and this server unpacks none")
            .remedy("send it as it is, without Content-Encoding"));
    }
    let declared = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = declared.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Code::MediaType
        .because("the body is not declared as JSON")
        .remedy("send the header Content-Type: application/json"))
}

/// Reads a body, up to a size and for so long. What all requests hold together is bounded, too.
async fn read(request: Request, app: &App, most: usize) -> Result<(Bytes, Held), Problem> {
    let too_large = || {
        Code::TooLarge
            .because(format!("the body has more than {most} bytes"))
            .remedy("send less at once; keep large content elsewhere and pass a reference")
    };
    let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let mut held = app.hold();
    let mut body = request.into_body();
    let reading = async {
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| Code::Invalid.because(format!("the body broke off: {error}")))?;
            let Ok(chunk) = frame.into_data() else { continue };
            if bytes.len() + chunk.len() > most {
                return Err(too_large());
            }
            held.more(chunk.len())?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(Bytes::from(bytes))
    };
    let read = tokio::time::timeout(app.bounds().body_time, reading).await;
    match read {
        Ok(read) => Ok((read?, held)),
        Err(_) => Err(Code::Timeout.because("the body took too long to come")),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8], depth: usize) -> Result<T, Problem> {
    check_depth(bytes, depth)?;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        let code = if error.is_data() { Code::Invalid } else { Code::NotJson };
        code.because(error.to_string()).at(path)
    })?;
    json.end().map_err(|error| Code::NotJson.because(error.to_string()))?;
    Ok(read)
}

/// Refuses what is nested too deep, before a parser descends into it.
fn check_depth(json: &[u8], most: usize) -> Result<(), Problem> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > most {
                    return Err(Code::TooDeep.because(format!("the body is nested more than {most} deep")));
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_what_is_open_outside_of_texts() {
        assert!(check_depth(br#"{"a":[[1],[2]],"b":"[[[[\"[[["}"#, 3).is_ok());
        assert_eq!(check_depth(br#"{"a":[[1]]}"#, 2).unwrap_err().code, Code::TooDeep);
        assert!(check_depth("[".repeat(100_000).as_bytes(), 64).is_err());
        assert!(check_depth("[]".repeat(100_000).as_bytes(), 1).is_ok());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Retry {
            #[serde(rename = "attempts")]
            _attempts: u32,
        }
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Job {
            #[serde(rename = "retry")]
            _retry: Option<Retry>,
        }
        let wrong = |text: &str| parse::<Job>(text.as_bytes(), 64).unwrap_err();
        let unknown = wrong(r#"{"retry":{"atempts":3}}"#);
        assert_eq!((unknown.code, unknown.path.as_deref()), (Code::Invalid, Some("retry.atempts")));
        assert_eq!(wrong(r#"{"retry":{"attempts":"3"}}"#).path.as_deref(), Some("retry.attempts"));
        assert_eq!(wrong("{").code, Code::NotJson);
        assert_eq!(wrong("{} {}").code, Code::NotJson);
    }
}
