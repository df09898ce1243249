//! Writes past the library into stores what no version of it, or only a newer one, would write.

use std::path::PathBuf;

use windlass::JobId;
use windlass_store_testkit::servers::{PostgresServer, RedisServer};

use crate::server::key;

/// A form that no program has yet, and the tag of a record in Redis that none knows.
const FORM: u8 = b'z';

/// A definition that has the wrong shape.
const DEFINITION: &str = r#"{"retention":7,"caps":"none"}"#;

/// A store whose rows can be spoiled. Jobs are in the queue `default`.
pub trait Spoil {
    /// Replaces one word by another of the same length in what was handed in with a job, but for its payload.
    fn replace(&self, job: JobId, word: &str, by: &str);

    /// Says that a job was written by a newer program.
    fn raise_form(&self, job: JobId);

    /// Makes the definition of a queue unreadable, which has one.
    fn spoil_definition(&self, queue: &str);
}

impl Spoil for PostgresServer {
    fn replace(&self, job: JobId, word: &str, by: &str) {
        let changed =
            format!("spec = replace(spec, '{word}', '{by}'), tags = replace(tags, '{word}', '{by}')");
        self.psql(&format!("UPDATE windlass.jobs SET {changed} WHERE id = '{job}'"));
    }

    fn raise_form(&self, job: JobId) {
        self.psql(&format!("UPDATE windlass.jobs SET form = {FORM} WHERE id = '{job}'"));
    }

    fn spoil_definition(&self, queue: &str) {
        self.psql(&format!("UPDATE windlass.queues SET config = '{DEFINITION}' WHERE name = '{queue}'"));
        self.psql("UPDATE windlass.settings SET value = value + 1 WHERE name = 'definitions'");
    }
}

impl Spoil for RedisServer {
    fn replace(&self, job: JobId, word: &str, by: &str) {
        edit(self, job, "record = string.gsub(record, ARGV[2], ARGV[3])", &[word, by]);
    }

    fn raise_form(&self, job: JobId) {
        edit(self, job, "record = ARGV[2] .. string.sub(record, 2)", &[&char::from(FORM).to_string()]);
    }

    fn spoil_definition(&self, queue: &str) {
        let meta = key("meta").replace(":default}", &format!(":{queue}}}"));
        self.command(&["HSET", &meta, "config", DEFINITION]);
        self.command(&["HINCRBY", &meta, "version", "1"]);
    }
}

/// Runs a line of Lua on the record of a job.
fn edit(server: &RedisServer, job: JobId, line: &str, arguments: &[&str]) {
    let script = format!(
        "local id = string.gsub(ARGV[1], '..', function(hex) return string.char(tonumber(hex, 16)) end)
         local record = redis.call('HGET', KEYS[1], id)
         {line}
         return redis.call('HSET', KEYS[1], id, record)"
    );
    let id: String = job.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let jobs = key("jobs");
    let words = [&["EVAL", &script, "1", &jobs, &id], arguments].concat();
    assert_eq!(server.command(&words), "0", "the job was there");
}

/// A store in a file.
#[derive(Debug)]
pub struct StoreFile(pub PathBuf);

impl StoreFile {
    fn change(&self, sql: &str, parameters: impl rusqlite::Params) {
        let file = rusqlite::Connection::open(&self.0).expect("the file opens");
        file.busy_timeout(std::time::Duration::from_secs(60)).expect("a plain setting");
        assert_eq!(file.execute(sql, parameters).expect("sound SQL"), 1, "the row was there");
    }
}

impl Spoil for StoreFile {
    fn replace(&self, job: JobId, word: &str, by: &str) {
        let sql = "UPDATE windlass_jobs SET spec = replace(spec, ?2, ?3), tags = replace(tags, ?2, ?3) WHERE id = ?1";
        self.change(sql, (&job.as_bytes()[..], word, by));
    }

    fn raise_form(&self, job: JobId) {
        self.change("UPDATE windlass_jobs SET form = ?2 WHERE id = ?1", (&job.as_bytes()[..], FORM));
    }

    fn spoil_definition(&self, queue: &str) {
        self.change("UPDATE windlass_queues SET config = ?2 WHERE name = ?1", (queue, DEFINITION));
    }
}
