//! The Redis servers of the tests themselves: they answer, keep what they are set to keep, move slots and promote
//! replicas, and leave nothing behind.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use windlass_store_testkit::servers::{Aof, RedisCluster, RedisServer, RedisSettings};

/// Runs a command through a URL, as any client would, and answers what is printed.
fn query(url: &str, options: &[&str], words: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .args(["--no-auth-warning", "-u", url])
        .args(options)
        .args(words)
        .output()
        .expect("redis-cli starts");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).trim().to_owned()
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

#[test]
fn a_server_answers_and_leaves_nothing_behind() {
    let server = RedisServer::start(&RedisSettings::default().maxmemory(50_000_000).set("timeout", 77));
    assert_eq!(query(&server.url(), &[], &["SET", "key", "value"]), "OK");
    assert_eq!(server.command(&["GET", "key"]), "value");
    assert_eq!(server.command(&["CONFIG", "GET", "timeout"]), "timeout\n77");
    assert_eq!(server.command(&["CONFIG", "GET", "maxmemory-policy"]), "maxmemory-policy\nnoeviction");
    assert_eq!(server.info("maxmemory").as_deref(), Some("50000000"));
    let refusal = server.try_command(&["NO-SUCH-COMMAND"]).unwrap_err().to_string();
    assert!(refusal.contains("unknown command"), "{refusal}");

    let (pid, socket) = (server.pid(), server.socket_path());
    assert!(is_alive(pid) && socket.exists());
    drop(server);
    assert!(!is_alive(pid) && !socket.parent().is_some_and(Path::exists));
}

#[test]
fn only_an_append_only_file_survives_a_kill() {
    for aof in [None, Some(Aof::Everysec), Some(Aof::Always)] {
        let settings = aof.map_or_else(RedisSettings::default, |aof| RedisSettings::default().aof(aof));
        let server = RedisServer::start(&settings);
        let (pid, port) = (server.pid(), server.port());
        server.command(&["SET", "key", "value"]);
        server.kill();
        assert!(server.try_command(&["PING"]).is_err() && !server.is_running());
        server.restart();
        assert!(server.pid() != pid && server.port() == port && !is_alive(pid));
        let kept = if aof.is_some() { "value" } else { "" };
        assert_eq!(server.command(&["GET", "key"]), kept, "{aof:?}");
    }
}

#[test]
fn a_paused_server_answers_when_it_goes_on() {
    let server = RedisServer::start(&RedisSettings::default());
    server.pause();
    let asked = std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.command(&["PING"]));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!asked.is_finished());
        server.resume();
        asked.join().unwrap()
    });
    assert_eq!(asked, "PONG");
    server.pause();
    server.stop();
}

#[test]
fn passwords_and_users_are_asked_for() {
    let server = RedisServer::start(&RedisSettings::default().password("s:e/c\"r et"));
    assert_eq!(query(&server.url(), &[], &["PING"]), "PONG");
    let refusal = query(&server.url().replace("et@", "it@"), &[], &["PING"]);
    assert!(refusal.contains("WRONGPASS"), "{refusal}");
    assert_eq!(server.command(&["PING"]), "PONG");
    assert!(!format!("{server:?}").contains("r et"), "{server:?}");

    let settings = RedisSettings::default().user("worker", "secret", "~wl:* &wl:* +@all -@dangerous");
    let server = RedisServer::start(&settings);
    assert_eq!(query(&server.url(), &[], &["SET", "wl:mine", "1"]), "OK");
    assert!(query(&server.url(), &[], &["SET", "theirs", "1"]).contains("NOPERM"));
    assert!(query(&format!("redis://127.0.0.1:{}", server.port()), &[], &["PING"]).contains("NOAUTH"));
    assert_eq!(server.command(&["CONFIG", "GET", "appendonly"]), "appendonly\nno");
    let replica = RedisServer::start(&RedisSettings::default().replica_of(&server));
    follows(&replica);
    assert_eq!(replica.command(&["GET", "wl:mine"]), "1");
    assert!(replica.try_command(&["SET", "wl:mine", "2"]).unwrap_err().to_string().contains("READONLY"));
}

fn follows(replica: &RedisServer) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while replica.info("master_link_status").as_deref() != Some("up") {
        assert!(std::time::Instant::now() < deadline, "the replica does not follow: {}", replica.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn tls_is_there_and_needed() {
    let server = RedisServer::start(&RedisSettings::default().tls());
    let authority = server.ca_path();
    let trusted = ["--cacert", authority.to_str().unwrap()];
    assert_eq!(query(&server.url(), &trusted, &["PING"]), "PONG");
    assert_ne!(query(&server.url(), &[], &["PING"]), "PONG");
    assert_ne!(query(&server.url().replace("rediss", "redis"), &[], &["PING"]), "PONG");
    assert_eq!(server.command(&["PING"]), "PONG");
}

#[test]
fn the_shared_servers_are_one() {
    let urls: Vec<_> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..4).map(|_| scope.spawn(|| RedisServer::shared().url())).collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).collect()
    });
    assert!(urls.windows(2).all(|pair| pair[0] == pair[1]), "{urls:?}");
    assert_eq!(query(urls[0], &[], &["PING"]), "PONG");
}

#[test]
fn a_cluster_promotes_replicas_and_moves_slots() {
    let cluster = RedisCluster::start();
    let slot = cluster.slot_of("{mine}:a");
    assert_eq!(slot, cluster.slot_of("mine"));
    assert_eq!((cluster.primaries().len(), cluster.nodes().len()), (3, 6));
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 6);

    let home = cluster.primary_of(slot);
    let keys = ["{mine}:a", "{mine}:b", "{mine}:c", "{mine}:d", "{mine}:e"];
    for key in keys {
        cluster.nodes()[home].command(&["SET", key, "value"]);
    }
    let target = *cluster.primaries().iter().find(|place| **place != home).unwrap();
    cluster.move_slot(slot, target, Duration::ZERO);
    assert_eq!(cluster.primary_of(slot), target);
    for key in keys {
        assert_eq!(cluster.nodes()[target].command(&["GET", key]), "value");
    }

    cluster.nodes()[target].command(&["WAIT", "1", "5000"]);
    assert_eq!(cluster.kill_primary_of(slot), target);
    let promoted = cluster.until_promoted(slot, target);
    assert_eq!(cluster.nodes()[promoted].command(&["GET", keys[0]]), "value");
    cluster.restart(target);
    cluster.until_well();
    assert_eq!(cluster.primaries().len(), 3);
    assert_eq!(cluster.nodes()[target].info("role").as_deref(), Some("slave"));
}
