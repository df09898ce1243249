//! `serve` as a real process: on every store, with the documented examples, under hostile requests, with tokens, and its stop.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use windlass_store_testkit::servers::RedisServer;

use crate::postgres::Schema;
use crate::shell::Shell;

const GUIDE: &str = include_str!("../../../../docs/guides/http-api.md");

/// A server, which is killed with this.
struct Server {
    process: Child,
    address: String,
    token: Option<String>,
}

struct Reply {
    status: u16,
    body: Value,
}

impl Server {
    fn start(shell: &Shell, store: Option<&str>, args: &[&str]) -> Self {
        let mut command = shell.command(["serve", "--listen", "127.0.0.1:0", "--json"].iter().chain(args));
        command.envs(store.map(|url| ("WINDLASS_STORE", url)));
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let address = said["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { process, address, token: None }
    }

    fn send(&self, method: &str, path: &str, headers: &[&str], body: Option<&str>) -> Reply {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for header in headers {
            head += &format!("{header}\r\n");
        }
        if let Some(token) = &self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        if let Some(body) = body {
            head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        stream.write_all(format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        let text = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        Reply { status, body: serde_json::from_str(text).unwrap_or(Value::Null) }
    }

    #[track_caller]
    fn ok(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let body = body.map(|body| body.to_string());
        let reply = self.send(method, path, &[], body.as_deref());
        assert!((200..300).contains(&reply.status), "{method} {path}: {}", reply.body);
        reply.body
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The main routes, on whichever store.
#[track_caller]
fn walk(store: Option<&str>) {
    let shell = Shell::new();
    let server = Server::start(&shell, store, &["--auth", "none"]);
    let job = json!({"kind": "mail.send", "payload": {"to": "ada"}, "queue": "mail", "tags": ["a"]});
    let id = server.ok("POST", "/api/v1/jobs", Some(job))["id"].as_str().unwrap().to_owned();
    let many: Vec<Value> = (0..120).map(|n| json!({"kind": "k", "queue": "many", "payload": n})).collect();
    let bulk = json!({"jobs": many}).to_string();
    for _ in 0..2 {
        let reply = server.send("POST", "/api/v1/jobs/bulk", &["Idempotency-Key: all of them"], Some(&bulk));
        assert_eq!(reply.status, 201, "{}", reply.body);
    }
    let (mut seen, mut after) = (0, String::new());
    loop {
        let page = server.ok("GET", &format!("/api/v1/jobs?queue=many&limit=50{after}"), None);
        seen += page["items"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, 120, "the second call has stored nothing");
    let definition = json!({"concurrency": 3, "rate": "500/1m", "masked": false, "keys": {"concurrency": 1}});
    server.ok("PUT", "/api/v1/queues/mail", Some(definition));
    server.ok("POST", "/api/v1/queues/mail/pause", Some(json!({"why": "ill", "for": "1h"})));
    let queue = server.ok("GET", "/api/v1/queues/mail", None);
    assert_eq!((&queue["counts"]["ready"], &queue["paused"]["why"]), (&json!(1), &json!("ill")), "{queue}");
    assert_eq!(server.ok("GET", &format!("/api/v1/jobs/{id}/explain"), None)["causes"][0]["cause"], "paused");
    server.ok("POST", "/api/v1/queues/mail/resume", None);
    server.ok("POST", &format!("/api/v1/jobs/{id}/cancel"), Some(json!({"why": "a slip"})));
    let ended = server.ok("GET", &format!("/api/v1/jobs/{id}?wait=1m"), None);
    assert_eq!((&ended["state"], &ended["payload"]["to"]), (&json!("cancelled"), &json!("ada")));
    server.ok("POST", &format!("/api/v1/jobs/{id}/retry"), None);
    server.ok("PUT", "/api/v1/queues/mail/records/cursor", Some(json!({"value": 7, "if_absent": true})));
    assert_eq!(server.ok("GET", "/api/v1/queues/mail/records/cursor", None)["value"], 7);
    let schedule = json!({"rules": {"cron": "0 3 * * *"}, "job": {"kind": "report"}});
    server.ok("PUT", "/api/v1/schedules/nightly", Some(schedule));
    for path in [
        "dead",
        "dead/groups",
        "dead/rules",
        "flows",
        "schedules",
        "workers",
        "queues?backlog=true",
        "doctor",
    ] {
        server.ok("GET", &format!("/api/v1/{path}"), None);
    }
    let audit = server.ok("GET", "/api/v1/audit", None);
    assert!(audit["items"].as_array().unwrap().len() >= 7, "{audit}");
    assert!(audit["items"].as_array().unwrap().iter().all(|entry| entry["status"].is_u64()), "{audit}");
}

#[test]
fn the_main_routes_work_on_every_store() {
    walk(Some("memory:"));
    walk(None);
    let schema = Schema::new("serve");
    walk(Some(&schema.url));
    let redis = RedisServer::shared().url();
    let separator = if redis.contains('?') { '&' } else { '?' };
    walk(Some(&format!("{redis}{separator}namespace=cli-serve-{}", std::process::id())));
}

/// The words of an example, as a shell has them.
fn words(line: &str) -> Vec<String> {
    let split =
        Command::new("sh").arg("-c").arg(line.replacen("curl", r"printf '%s\n'", 1)).output().unwrap();
    String::from_utf8(split.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_documented_requests_work() {
    let shell = Shell::new();
    let server = Server::start(&shell, None, &[]);
    let lines: Vec<&str> = GUIDE.lines().filter(|line| line.starts_with("curl ")).collect();
    assert!(lines.len() > 12, "the page has examples");
    for line in lines {
        let (mut method, mut path, mut headers, mut body) =
            ("GET".to_owned(), String::new(), Vec::new(), None);
        let mut words = words(line).into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-sS" => {}
                "-X" => method = words.next().unwrap(),
                "-H" => headers.push(words.next().unwrap()),
                "--json" => body = words.next(),
                _ => path = word.trim_start_matches("http://127.0.0.1:8080").to_owned(),
            }
        }
        if body.is_some() && method == "GET" {
            method = "POST".to_owned();
        }
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let reply = server.send(&method, &path, &headers, body.as_deref());
        let is_wrong = line.contains("atempts");
        assert_eq!((200..300).contains(&reply.status), !is_wrong, "{line}\n{}", reply.body);
        if is_wrong {
            assert_eq!(reply.body["path"], "retry.atempts");
        }
    }
}

#[test]
fn hostile_requests_leave_it_small_and_well() {
    let shell = Shell::new();
    let server = Server::start(&shell, Some("memory:"), &[]);
    let large = format!(r#"{{"kind":"k","payload":"{}"}}"#, "x".repeat(3 << 20));
    let deep = format!(r#"{{"kind":"k","payload":{}"#, "[".repeat(100_000));
    for _ in 0..20 {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let head = "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let chunk = format!("100000\r\n{}\r\n", "y".repeat(1 << 20));
        // Up to a gigabyte, until the server has had enough.
        for _ in 0..1_024 {
            if stream.write_all(chunk.as_bytes()).is_err() {
                break;
            }
        }
        assert_eq!(server.send("POST", "/api/v1/jobs", &[], Some(&deep)).status, 400);
        for path in ["jobs?limit=1000000000", "queues?limit=18446744073709551615", "audit?limit=99999999999"]
        {
            server.ok("GET", &format!("/api/v1/{path}"), None);
        }
    }
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let _ = stream.write_all(format!("POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{large}", large.len()).as_bytes());
    server.ok("GET", "/api/v1", None);
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 256 << 10, "it held {kib} KiB");
    }
}

#[test]
fn tokens_are_made_asked_for_and_revoked() {
    let shell = Shell::new();
    for args in [
        &["serve", "--listen", "0.0.0.0:0"][..],
        &["serve", "--host", "jobs.example.com"],
        &["serve", "--auth", "tokens"],
    ] {
        shell.run(args).exits(2).complains("windlass tokens create");
    }
    shell.run(["serve", "--listen", "0.0.0.0:0", "--auth", "none"]).exits(2).complains("other machines");
    let made = shell.run(["tokens", "create", "ada", "--role", "admin", "--json"]).ok().json();
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let plain = shell.run(["tokens", "create", "bob", "--ttl", "1h", "--queue", "mail"]).ok();
    assert!(plain.stdout.starts_with("wl_") && plain.stdout.lines().count() == 1, "{plain:?}");
    shell.run(["tokens", "list"]).ok().prints("ada").prints("viewer").prints("mail");
    assert!(!shell.run(["tokens", "list", "--json"]).ok().stdout.contains(token), "a token is shown once");
    let file = std::fs::read(shell.path("windlass.db")).unwrap();
    let secret = token.rsplit('_').next().unwrap().as_bytes();
    assert!(!file.windows(secret.len()).any(|part| part == secret), "the store has only its hash");

    let mut server = Server::start(&shell, None, &[]);
    assert_eq!(server.send("GET", "/api/v1", &[], None).status, 401);
    server.token = Some(token.to_owned());
    assert_eq!(server.ok("GET", "/api/v1", None)["caller"], "ada");
    server.ok("PUT", "/api/v1/queues/mail", Some(json!({"masked": true})));
    shell.run(["audit"]).ok().prints("ada").prints("define_queue").prints("200");
    shell.run(["queues", "--json"]).ok().prints(r#""masked":true"#);
    server.ok("DELETE", &format!("/api/v1/tokens/{id}"), None);
    assert_eq!(
        server.send("GET", "/api/v1", &[], None).status,
        401,
        "it is heeded at once where it was revoked"
    );
    shell.run(["tokens", "revoke", id]).exits(4);
}

#[cfg(unix)]
#[test]
fn it_stops_when_it_is_told_to() {
    let shell = Shell::new();
    let mut server = Server::start(&shell, None, &[]);
    server.ok("GET", "/api/v1", None);
    let killed = Command::new("kill").args(["-TERM", &server.process.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
}

#[test]
fn https_is_served_with_a_certificate_and_its_key() {
    let shell = Shell::new();
    let made = Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out chain.pem -days 2 -subj /CN=localhost".split(' '))
        .current_dir(shell.folder())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    shell
        .run(["serve", "--tls-cert", "chain.pem", "--tls-key", "chain.pem"])
        .exits(2)
        .complains("no private key");
    shell
        .run(["serve", "--tls-cert", "nothing.pem", "--tls-key", "key.pem"])
        .exits(2)
        .complains("cannot read");
    let server = Server::start(&shell, None, &["--tls-cert", "chain.pem", "--tls-key", "key.pem"]);
    let address = server.address.trim_start_matches("https://");
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", address, "-CAfile", "chain.pem", "-verify_return_error"])
        .current_dir(shell.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = client.stdin.take().unwrap();
    stdin.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    drop(stdin);
    client.wait().unwrap();
    let lower = answer.to_lowercase();
    assert!(answer.starts_with("HTTP/1.1 200 ") && lower.contains("strict-transport-security"), "{answer}");
}
