//! How a server is reached: what its URL says, and the token, which no URL holds.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderValue;
use percent_encoding::percent_decode_str;
use windlass_core::store::StoreResult;
use windlass_store_server::options::{address, bounded, unknown, valueless};

/// The parameters of a URL.
const KNOWN: &str = "token_file, ca, timeout and pool";
/// How long a call may take where nothing is said.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Calls at once where nothing is said.
const POOL: usize = 16;
const POOL_MAX: usize = 256;
/// The largest token file: a larger one is something else.
const TOKEN_FILE_MAX: u64 = 4096;

/// What a server knows a caller by. Shows nothing of itself.
#[derive(Clone)]
pub struct Token(HeaderValue);

impl Token {
    /// A token as `windlass tokens create` prints it.
    ///
    /// # Errors
    /// When it is empty or has characters that no token has.
    pub fn new(text: &str) -> StoreResult<Self> {
        let text = text.trim();
        let is_one = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let header = is_one.then(|| HeaderValue::from_str(&format!("Bearer {text}")).ok()).flatten();
        let mut header = header.ok_or_else(|| {
            address("this is not a token: it is one word, as `windlass tokens create` prints it")
        })?;
        header.set_sensitive(true);
        Ok(Self(header))
    }

    /// The token in a file.
    ///
    /// # Errors
    /// When it cannot be read, or holds none.
    pub fn of_file(path: &Path) -> StoreResult<Self> {
        let refused = |why: &dyn fmt::Display| address(format!("the token file {}: {why}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| refused(&error))?.len();
        if size > TOKEN_FILE_MAX {
            return Err(refused(&"it is too large to hold a token alone"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
        Self::new(&text).map_err(|_| refused(&"it does not hold a token alone"))
    }

    /// The one that the environment names, if any: `WINDLASS_TOKEN_FILE`, or `WINDLASS_TOKEN` itself.
    fn of_environment() -> StoreResult<Option<Self>> {
        let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(path) = named("WINDLASS_TOKEN_FILE") {
            return Self::of_file(Path::new(&path)).map(Some);
        }
        let Some(text) = named("WINDLASS_TOKEN") else { return Ok(None) };
        Self::new(text.to_str().unwrap_or_default()).map(Some)
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Scheme, host and path, without a slash at its end.
    pub(super) base: String,
    is_secure: bool,
    authority: String,
    pub(super) token: Option<Token>,
    pub(super) ca: Option<PathBuf>,
    pub(super) timeout: Duration,
    pub(super) pool: usize,
}

impl HttpOptions {
    /// From a URL: `http://host:port`, `https://host`, either with a path under which the server is mounted.
    ///
    /// | parameter | what it says |
    /// |---|---|
    /// | `token_file` | the file that holds the token; without it `WINDLASS_TOKEN_FILE`, then `WINDLASS_TOKEN` of the environment |
    /// | `ca` | a file with the certificates of authorities to trust, instead of the system's |
    /// | `timeout` | how long a call may take, as `15s`, the default |
    /// | `pool` | how many calls are made at once; 16 by default |
    ///
    /// # Errors
    /// When it makes no sense, or the token cannot be read.
    pub fn of_url(url: &str) -> StoreResult<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let base = base.trim_end_matches('/');
        // A part of a URL that does not read may be a password, and is not quoted.
        let uri: Uri =
            base.parse().map_err(|_| address("the URL of the server does not read: use http://host:port"))?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(address("the URL of a server begins with http:// or https:// and names a host"));
        };
        if authority.as_str().contains('@') {
            return Err(address(
                "the URL of a server holds no password: name a token file by token_file=path",
            ));
        }
        if authority.host().is_empty() || base.contains('#') {
            return Err(address("the URL of the server does not read: use http://host:port"));
        }
        let mut options = Self {
            base: base.to_owned(),
            is_secure: scheme == "https",
            authority: authority.to_string(),
            token: None,
            ca: None,
            timeout: TIMEOUT,
            pool: POOL,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| valueless(pair, KNOWN))?;
            let value = percent_decode_str(value).decode_utf8().map_err(|_| unknown(name, KNOWN))?;
            options.set(name, &value)?;
        }
        if options.token.is_none() {
            options.token = Token::of_environment()?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> StoreResult<()> {
        match name {
            "token_file" => self.token = Some(Token::of_file(Path::new(value))?),
            "ca" => self.ca = Some(value.into()),
            "timeout" => {
                let text = "timeout: use a time from 100ms to 1h, as 15s or 500ms";
                let millis = value.strip_suffix("ms").map(|number| number.parse().map(Duration::from_millis));
                let seconds =
                    || value.strip_suffix('s').map(|number| number.parse().map(Duration::from_secs));
                let time = millis.or_else(seconds).and_then(Result::ok).ok_or_else(|| address(text))?;
                self.timeout = bounded(name, time)?;
            }
            "pool" => {
                let size = value.parse().ok().filter(|size| (1..=POOL_MAX).contains(size));
                self.pool =
                    size.ok_or_else(|| address(format!("pool: use a number from 1 to {POOL_MAX}")))?;
            }
            _ => return Err(unknown(name, KNOWN)),
        }
        Ok(())
    }

    /// The token to send.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    pub(super) const fn scheme(&self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }

    /// Where the server is, as it is shown.
    pub(super) fn place(&self) -> String {
        let path = self.base.split_once("://").map_or("", |(_, rest)| &rest[self.authority.len()..]);
        format!("{}{path}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_and_how() {
        let options = HttpOptions::of_url("http://jobs.example:8080/").unwrap();
        assert_eq!((options.base.as_str(), options.scheme()), ("http://jobs.example:8080", "http"));
        assert_eq!((options.place().as_str(), options.timeout), ("jobs.example:8080", TIMEOUT));
        let options =
            HttpOptions::of_url("https://[::1]:1/windlass?timeout=500ms&pool=3&ca=/a%20b.pem").unwrap();
        assert_eq!((options.place().as_str(), options.pool), ("[::1]:1/windlass", 3));
        assert_eq!((options.timeout, options.ca), (Duration::from_millis(500), Some("/a b.pem".into())));
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_no_password_quoted() {
        for (url, says) in [
            ("http://", "names a host"),
            ("http://u:S3cret@host", "holds no password"),
            ("http://host?token=S3cret", "unknown parameter"),
            ("http://host?S3cret", "unknown parameter"),
            ("http://host?timeout=1", "from 100ms to 1h"),
            ("http://host?timeout=2h", "from 100ms to 1h"),
            ("http://host?pool=0", "from 1 to 256"),
            ("http://host/#S3cret", "does not read"),
            ("http://ho st", "does not read"),
            ("http://host?token_file=/nowhere/at/all", "/nowhere/at/all"),
        ] {
            let error = HttpOptions::of_url(url).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("S3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn a_token_shows_nothing_of_itself() {
        let token = Token::new(" wl_abc\n").unwrap();
        assert_eq!(token.header(), "Bearer wl_abc");
        assert!(!format!("{token:?} {:?}", token.header()).contains("abc"));
        for bad in ["", "two words", "a\u{e4}"] {
            assert!(Token::new(bad).is_err(), "{bad:?}");
        }
    }
}
