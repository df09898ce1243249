//! How lines lie in records: `log/JOB/FENCE/CHUNK`, numbers of a fixed width, so that keys sort as lines were said.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use windlass_core::record::{Record, RecordKey};
use windlass_core::{Bytes, JobId};

use super::{LogLevel, LogLine};

/// What all keys of a job's log begin with.
pub(crate) fn prefix(job: JobId) -> String {
    format!("log/{job}/")
}

/// The key of a chunk. A fence has 20 digits at most.
pub(crate) fn key(job: JobId, fence: u64, chunk: u32) -> RecordKey {
    RecordKey::new(format!("log/{job}/{fence:020}/{chunk:010}")).expect("digits and an id are a short key")
}

/// The fence in the key of a chunk; nothing for a record that is not a chunk.
fn fence(key: &RecordKey) -> Option<u64> {
    key.as_str().split('/').nth(2)?.parse().ok()
}

/// A line before it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) at: SystemTime,
    pub(crate) level: LogLevel,
    pub(crate) text: String,
}

/// A chunk: the lines as number, microseconds since 1970, level and text.
#[derive(Debug, Serialize, Deserialize)]
struct Stored<Lines> {
    attempt: u32,
    lines: Lines,
}

/// The value of a chunk.
pub(crate) fn encode(attempt: u32, lines: &[Line]) -> Bytes {
    let lines: Vec<_> =
        lines.iter().map(|line| (line.number, micros(line.at), line.level, &*line.text)).collect();
    let value = serde_json::to_vec(&Stored { attempt, lines });
    value.expect("numbers and texts encode").into()
}

/// The lines of a chunk; nothing for a record that another program has put there.
pub(crate) fn decode(record: &Record) -> Option<Vec<LogLine>> {
    let fence = fence(&record.key)?;
    let stored: Stored<Vec<(u64, u64, LogLevel, String)>> = serde_json::from_slice(&record.value).ok()?;
    let line = |(number, micros, level, text)| LogLine {
        attempt: stored.attempt,
        fence,
        number,
        dropped: 0,
        at: SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_micros(micros))
            .unwrap_or(SystemTime::UNIX_EPOCH),
        level,
        text,
    };
    Some(stored.lines.into_iter().map(line).collect())
}

fn micros(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use windlass_core::clock::Timestamp;
    use windlass_core::record::Version;

    use super::*;

    #[test]
    fn chunks_come_back_as_they_were_and_sort_as_they_were_said() {
        let job = JobId::new();
        let keys =
            [key(job, 1, 0), key(job, 1, 2), key(job, 1, 10), key(job, 2, 0), key(job, u64::MAX, u32::MAX)];
        assert!(keys.is_sorted(), "{keys:?}");
        assert!(keys.iter().all(|key| key.as_str().starts_with(&prefix(job))));
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        let hostile = "\u{1b}[31m\u{202e}\n\u{7}\"".to_owned();
        let line = Line { number: 7, at, level: LogLevel::Warn, text: hostile.clone() };
        let record = |key: RecordKey, value: Bytes| Record {
            key,
            version: Version::new(),
            value,
            written_at: Timestamp::from_micros(0),
            expires_at: None,
        };
        let read = decode(&record(key(job, 12, 3), encode(4, &[line]))).unwrap();
        let expected = LogLine {
            attempt: 4,
            fence: 12,
            number: 7,
            dropped: 0,
            at,
            level: LogLevel::Warn,
            text: hostile,
        };
        assert_eq!(read, [expected]);
        assert_eq!(decode(&record(key(job, 1, 0), "17".into())), None);
        assert_eq!(decode(&record(RecordKey::new("log/x").unwrap(), encode(1, &[]))), None);
    }
}
