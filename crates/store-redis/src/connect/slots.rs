//! Which slot a key is in, and which server has a slot: the arithmetic of Redis Cluster.

use redis::Value;

use crate::options::Target;

/// How many slots a Cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// Which server has which slot.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    nodes: Vec<Target>,
    /// By slot: the place of its server among the nodes, or [`NOBODY`].
    owners: Vec<u16>,
}

const NOBODY: u16 = u16::MAX;

impl Slots {
    /// Reads the answer of `CLUSTER SLOTS`. A node that does not say its own host is the one that was asked.
    pub(crate) fn read(value: &Value, asked: &Target) -> Option<Self> {
        let Value::Array(ranges) = value else { return None };
        let mut slots = Self { nodes: Vec::new(), owners: vec![NOBODY; usize::from(SLOTS)] };
        for range in ranges {
            let Value::Array(parts) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &parts[..] else {
                return None;
            };
            let [host, Value::Int(port), ..] = &primary[..] else { return None };
            let target = node(host, u16::try_from(*port).ok()?, asked)?;
            let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
            if first > last || last >= SLOTS {
                return None;
            }
            let place = slots.place(target);
            slots.owners[usize::from(first)..=usize::from(last)].fill(place);
        }
        Some(slots)
    }

    /// The server of a slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Target> {
        self.nodes.get(usize::from(self.owners[usize::from(slot)]))
    }

    /// From now on this server has the slot.
    pub(crate) fn moved(&mut self, slot: u16, target: Target) {
        let place = self.place(target);
        self.owners[usize::from(slot)] = place;
    }

    /// All servers that have slots.
    pub(crate) fn nodes(&self) -> &[Target] {
        &self.nodes
    }

    fn place(&mut self, target: Target) -> u16 {
        let known = self.nodes.iter().position(|node| *node == target).unwrap_or_else(|| {
            self.nodes.push(target);
            self.nodes.len() - 1
        });
        u16::try_from(known).unwrap_or(NOBODY)
    }
}

fn node(host: &Value, port: u16, asked: &Target) -> Option<Target> {
    let host = match host {
        Value::BulkString(host) if !host.is_empty() && host != b"?" => {
            String::from_utf8(host.clone()).ok()?
        }
        Value::SimpleString(host) if !host.is_empty() && host != "?" => host.clone(),
        _ => match asked {
            Target::Tcp(host, _) => host.clone(),
            Target::Unix(_) | Target::Primary(_) => return None,
        },
    };
    Some(Target::Tcp(host, port))
}

/// Reads where `MOVED 3999 host:port` and `ASK 3999 host:port` point to.
pub(crate) fn redirection(text: &str, asked: &Target) -> Option<(u16, Target)> {
    let (slot, place) = text.split_once(' ')?;
    let slot = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
    let (host, port) = place.split_whitespace().next()?.rsplit_once(':')?;
    let host = Value::SimpleString(host.to_owned());
    Some((slot, node(&host, port.parse().ok()?, asked)?))
}

/// The slot of a key: of what stands between the first `{` and the `}` after it, if anything does.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let length = rest.iter().position(|&byte| byte == b'}')?;
        (length > 0).then(|| &rest[..length])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC16 as XMODEM has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, &byte| {
        (0..8).fold(
            sum ^ u16::from(byte) << 8,
            |sum, _| {
                if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [("foo", 12182), ("wl:{foo}:meta", 12182), ("{}foo", 9500), ("foo{bar", 15278)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn a_map_is_read_and_changed() {
        let asked = Target::Tcp("asked".to_owned(), 1);
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let range = |first, last, host: &str, port| {
            let node = Value::Array(vec![text(host), Value::Int(port), text("id")]);
            Value::Array(vec![Value::Int(first), Value::Int(last), node.clone(), node])
        };
        let answer = Value::Array(vec![range(0, 99, "a", 7000), range(100, 16383, "", 7001)]);
        let mut slots = Slots::read(&answer, &asked).unwrap();
        assert_eq!(slots.owner(99), Some(&Target::Tcp("a".to_owned(), 7000)));
        assert_eq!(slots.owner(100), Some(&Target::Tcp("asked".to_owned(), 7001)));
        slots.moved(100, Target::Tcp("a".to_owned(), 7000));
        assert_eq!(slots.owner(100), slots.owner(99));
        assert_eq!(slots.nodes().len(), 2);
        let part = Slots::read(&Value::Array(vec![range(5, 6, "a", 1)]), &asked).unwrap();
        assert_eq!(part.owner(7), None);
        for nonsense in [Value::Okay, Value::Array(vec![range(5, 16384, "a", 1)])] {
            assert!(Slots::read(&nonsense, &asked).is_none());
        }
    }

    #[test]
    fn a_redirection_names_slot_and_server() {
        let asked = Target::Tcp("asked".to_owned(), 1);
        let there = Target::Tcp("10.0.0.1".to_owned(), 6381);
        assert_eq!(redirection("3999 10.0.0.1:6381", &asked), Some((3999, there)));
        assert_eq!(redirection("1 :6381", &asked), Some((1, Target::Tcp("asked".to_owned(), 6381))));
        assert_eq!(redirection("1 ::1:6381", &asked), Some((1, Target::Tcp("::1".to_owned(), 6381))));
        for nonsense in ["", "16384 a:1", "1 a", "x a:1"] {
            assert_eq!(redirection(nonsense, &asked), None, "{nonsense}");
        }
    }
}
