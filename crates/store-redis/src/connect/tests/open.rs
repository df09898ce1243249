//! Who is let in, to which servers, and what they promise.

use windlass_core::store::Durability;
use windlass_store_testkit::servers::Aof;

use super::*;

#[tokio::test]
async fn who_is_not_let_in_hears_why_and_no_password_is_shown() {
    let redis = RedisServer::start(&RedisSettings::default().password("right-secret"));
    let (right, port) = (redis.url(), redis.port());
    open(&right).await;
    for (url, hint) in [
        (format!("redis://:wrong-secret@127.0.0.1:{port}"), "the user or the password"),
        (format!("redis://127.0.0.1:{port}"), "wants a password"),
        (format!("redis://nobody:wrong-secret@127.0.0.1:{port}"), "the user or the password"),
    ] {
        let error = refusal(&url).await;
        assert_eq!(error.kind(), StoreErrorKind::Fatal);
        let text = format!("{error} {error:?}");
        assert!(text.contains(hint) && !text.contains("secret"), "{text}");
    }
    let open_to_all = RedisServer::start(&RedisSettings::default());
    let error = refusal(&format!("redis://u:wrong-secret@127.0.0.1:{}", open_to_all.port())).await;
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    let error = refusal(&format!("{}/99", open_to_all.url())).await;
    assert!(error.to_string().contains("no database of this number"), "{error}");
}

/// Whoever wrote it believes that the server asks for it.
#[tokio::test]
async fn a_password_that_nobody_asks_for_is_refused() {
    let redis = RedisServer::start(&RedisSettings::default());
    for user in ["", "default"] {
        let error = refusal(&format!("redis://{user}:secret@127.0.0.1:{}", redis.port())).await;
        assert_eq!(error.kind(), StoreErrorKind::Fatal);
        let text = format!("{error} {error:?}");
        assert!(
            text.contains("no password for this user") && text.contains("leave the password out"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
    }
    redis.command(&["CONFIG", "SET", "requirepass", "secret"]);
    open(&format!("redis://:secret@127.0.0.1:{}", redis.port())).await;
}

#[tokio::test]
async fn a_password_for_a_user_that_takes_any_is_refused_where_the_server_tells() {
    let redis = RedisServer::start(&RedisSettings::default());
    let url = format!("redis://app:secret@127.0.0.1:{}", redis.port());
    redis.command(&["ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all"]);
    let error = refusal(&url).await;
    let text = format!("{error} {error:?}");
    assert!(text.contains("nopass") && text.contains("user app") && !text.contains("secret"), "{text}");
    assert_eq!(error.kind(), StoreErrorKind::Fatal);
    redis.command(&["ACL", "SETUSER", "app", "resetpass", ">secret"]);
    open(&url).await;
    // One that may not ask is let in.
    redis.command(&["ACL", "SETUSER", "app", "nopass", "-@dangerous", "+info"]);
    open(&url).await;
}

#[tokio::test]
async fn a_user_with_few_rights_will_do() {
    let rules = "~wl:* &wl:* +@all -@dangerous +info";
    let redis = RedisServer::start(&RedisSettings::default().user("app", "pass", rules).aof(Aof::Always));
    let server = start(&RedisOptions::parse(&redis.url()).unwrap()).await.unwrap();
    // Without CONFIG it is only known that there is a file, not when it reaches the disk.
    assert_eq!(probe(&server).await.unwrap().durability, Durability::Delayed);
    grow(&server).await.unwrap();
    let rules = "~wl:* &wl:* +@all -@dangerous";
    let redis = RedisServer::start(&RedisSettings::default().user("app", "pass", rules));
    let error = refusal(&redis.url()).await;
    assert!(error.to_string().contains("+info"), "{error}");
}

#[tokio::test]
async fn settings_decide_what_is_promised() {
    for (settings, expected) in [
        (RedisSettings::default(), Durability::Server),
        (RedisSettings::default().aof(Aof::Everysec), Durability::Delayed),
        (RedisSettings::default().aof(Aof::Always), Durability::PowerCut),
    ] {
        let redis = RedisServer::start(&settings);
        let server = start(&RedisOptions::parse(&redis.url()).unwrap()).await.unwrap();
        assert_eq!(probe(&server).await.unwrap().durability, expected);
    }
    let evicting = RedisServer::start(&RedisSettings::default().set("maxmemory-policy", "allkeys-lru"));
    let error = refusal(&evicting.url()).await;
    assert!(error.to_string().contains("noeviction") && error.kind() == StoreErrorKind::Fatal, "{error}");
    open(&format!("{}?eviction=allow", evicting.url())).await;
}

#[tokio::test]
async fn tls_and_sockets_lead_to_the_same_server() {
    let redis = RedisServer::start(&RedisSettings::default().tls());
    let ca = redis.ca_path();
    let url = format!("rediss://localhost:{}?ca_file={}", redis.port(), ca.display());
    grow(&open(&url).await).await.unwrap();
    let socket = format!("redis+unix://{}", redis.socket_path().display());
    assert_eq!(read(&open(&socket).await).await.unwrap(), Value::BulkString(b"b".to_vec()));
    let other = RedisServer::start(&RedisSettings::default().tls());
    let url = format!("rediss://localhost:{}?ca_file={}", redis.port(), other.ca_path().display());
    let error = refusal(&url).await;
    assert_eq!(error.kind(), StoreErrorKind::Fatal, "{error}");
    let plain = RedisServer::start(&RedisSettings::default());
    let ca = ca.display();
    let url = format!("rediss://localhost:{}?ca_file={ca}&connect_timeout=300ms", plain.port());
    let error = refusal(&url).await;
    assert!(error.to_string().contains("TLS"), "{error}");
}
