//! How much memory a Redis server uses for what it keeps, as it counts that itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// A server counts what each connection holds about once in this time.
const COUNTING: Duration = Duration::from_millis(1_200);

/// Bytes of all keys. What connections and the append-only file hold for a moment is left out: it comes and goes.
pub(crate) fn used_bytes(server: &str) -> Result<u64> {
    sleep(COUNTING);
    let mut stream = TcpStream::connect(server).with_context(|| format!("no Redis server at {server}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"INFO memory\r\n")?;
    let mut reader = BufReader::new(stream);
    let mut length = String::new();
    reader.read_line(&mut length)?;
    let Some(length) = length.trim_end().strip_prefix('$') else { bail!("Redis answered {length:?}") };
    let mut text = vec![0; length.parse().context("the length of an answer")?];
    reader.read_exact(&mut text)?;
    let text = String::from_utf8(text)?;
    let figure = |name: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.with_context(|| format!("Redis does not tell {name}"))?.parse().context("a number of bytes")
    };
    let passing = figure("mem_clients_normal")? + figure("mem_aof_buffer")?;
    Ok(figure("used_memory")?.saturating_sub(passing))
}
