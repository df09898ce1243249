//! Which host names a request may have. A page of another site can make its own name point at this machine (DNS rebinding);
//! it cannot make the browser send one of these.

use axum::http::header::HOST;
use axum::http::request::Parts;

use crate::problem::{Code, Problem};

/// Names of this machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names that are permitted.
#[derive(Debug, Clone)]
pub(crate) enum Hosts {
    /// All: the application around the router decides.
    Any,
    /// Those of this machine for itself, and these, in lower case and without a port.
    Only(Vec<String>),
}

impl Hosts {
    /// Names of this machine, and these.
    pub(crate) fn with(names: impl IntoIterator<Item = String>) -> Self {
        Self::Only(names.into_iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Refuses a request for another host, or for several at once.
    pub(crate) fn check(&self, parts: &Parts) -> Result<(), Problem> {
        let Self::Only(names) = self else { return Ok(()) };
        let mut hosts = parts.headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok(),
            _ => None,
        };
        // A target with a host of its own must agree.
        let target = parts.uri.authority().map(axum::http::uri::Authority::as_str);
        let is_known = |host: &str| {
            name_of(host).is_some_and(|name| LOOPBACK.contains(&name.as_str()) || names.contains(&name))
        };
        match host {
            Some(host) if is_known(host) && target.is_none_or(is_known) => Ok(()),
            _ => Err(Code::WrongHost
                .because("the request names a host that this server does not answer for")
                .remedy("use localhost or 127.0.0.1, or start the server with --host NAME")),
        }
    }
}

/// The name without its port; nothing where what follows is not a port.
fn name_of(host: &str) -> Option<String> {
    let end = if host.starts_with('[') { host.find(']')? + 1 } else { host.find(':').unwrap_or(host.len()) };
    let (name, port) = host.split_at(end);
    let is_port = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok(),
        None => port.is_empty(),
    };
    (is_port && !name.is_empty()).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn check(hosts: &[&str], target: &str) -> bool {
        let mut request = Request::builder().uri(target);
        for host in hosts {
            request = request.header(HOST, axum::http::HeaderValue::from_bytes(host.as_bytes()).unwrap());
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Hosts::with(["jobs.example.com".to_owned()]).check(&parts).is_ok()
    }

    #[test]
    fn only_names_of_this_server_are_answered() {
        for good in [
            "localhost",
            "LOCALHOST",
            "localhost:8080",
            "localhost:1",
            "127.0.0.1",
            "127.0.0.1:65535",
            "[::1]",
            "[::1]:8080",
            "jobs.example.com",
            "Jobs.Example.Com:443",
        ] {
            assert!(check(&[good], "/"), "{good:?} was refused");
        }
        for bad in [
            "",
            ":",
            ":8080",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "evil-localhost",
            "localhost.",
            "127.0.0.1.evil.example",
            "127.0.0.1.",
            "127.1",
            "127.0.0.2",
            "0.0.0.0",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "::1",
            "[::1",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::1]8080",
            "[::1]:x",
            "localhost:",
            "localhost:x",
            "localhost:80:80",
            "localhost:-1",
            "localhost:65536",
            "localhost:+80",
            "local host",
            " localhost",
            "localhost ",
            "localhost,evil.example",
            "user@localhost",
            "localhost@evil",
            "localhost/evil",
            "localhost#",
            "localhost?",
            "localhost\\evil",
            "jobs.example.com.evil",
            "example.com",
            "http://localhost",
            "localhost\t",
        ] {
            assert!(!check(&[bad], "/"), "{bad:?} was answered");
        }
    }

    #[test]
    fn one_host_is_named_and_the_target_agrees() {
        assert!(!check(&[], "/") && !check(&["localhost", "localhost"], "/"));
        assert!(
            check(&["localhost"], "http://127.0.0.1:8080/") && !check(&["localhost"], "http://evil.example/")
        );
        assert!(!check(&["evil.example"], "http://localhost/"));
    }
}
