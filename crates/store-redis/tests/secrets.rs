//! No password is ever written into a log, an error or a debugging text, whatever goes wrong. In a file of its own: it
//! hears the log of its whole process.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;
use windlass_core::store::{Queues, Wakeup};
use windlass_store_redis::{RedisOptions, RedisStore};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics while writing").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn no_password_is_ever_written_anywhere() {
    let log = Log::default();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).init();
    let rules = "~wl:* +@all resetchannels";
    let redis = RedisServer::start(&RedisSettings::default().user("app", "hunter2", rules));
    let mut texts = Vec::new();
    for url in [redis.url().replace("hunter2", "hunter3"), redis.url() + "&x=1", redis.url() + "/77"] {
        let error = RedisStore::open(&url).await.unwrap_err();
        texts.push(format!("{error} {error:?}"));
    }
    // Some servers and proxies know no AUTH, and repeat what they do not know.
    let strange = RedisServer::start(&RedisSettings::default().set("rename-command", "AUTH \"\""));
    let error =
        RedisStore::open(&format!("redis://:hunter2@127.0.0.1:{}", strange.port())).await.unwrap_err();
    texts.push(format!("{error} {error:?}"));
    let options = RedisOptions::parse(&redis.url()).unwrap();
    texts.push(format!("{options:?} {}", options.place()));
    let store = RedisStore::open_with(options).await.unwrap();
    texts.push(format!("{store:?}"));
    // The user may not subscribe, which is said in the log.
    store.bell();
    store.queues(None, 9).await.unwrap();
    redis.kill();
    while store.wake_mode() != windlass_store_redis::WakeMode::Polling {
        tokio::task::yield_now().await;
    }
    for _ in 0..5 {
        let error = store.queues(None, 9).await.unwrap_err();
        texts.push(format!("{error} {error:?}"));
    }
    texts.push(String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned());
    assert!(texts.last().is_some_and(|log| !log.is_empty()), "the log is heard");
    for text in texts {
        assert!(!text.contains("hunter"), "{text}");
    }
}
