//! What a worker serves, as one text that every store keeps with its lease and shows. No job depends on it: it says which
//! processes may be woken.

use crate::bell::Address;
use crate::name::Name;

/// The most kinds that are kept with a lease: they are for people to read.
pub const KINDS_KEPT: usize = 100;

/// The queues, then a bar and the kinds, with spaces between names: no name has either.
pub fn text(queues: &[Name], kinds: &[Name]) -> String {
    let joined = |names: &[Name]| names.iter().map(Name::as_str).collect::<Vec<_>>().join(" ");
    format!("{}|{}", joined(queues), joined(&kinds[..kinds.len().min(KINDS_KEPT)]))
}

/// Such a text, with another bar and where the worker's process hears what it alone is told.
pub fn text_at(queues: &[Name], kinds: &[Name], address: Address) -> String {
    let text = text(queues, kinds);
    match address {
        Address::Unknown => text,
        Address::Deaf => format!("{text}|-"),
        Address::Process(number) => format!("{text}|{number:016x}"),
    }
}

/// Queues and kinds of such a text. A name that does not read is left out: the lease is shown all the same.
pub fn read(text: &str) -> (Vec<Name>, Vec<Name>) {
    let names = |text: &str| text.split(' ').filter_map(|name| Name::new(name).ok()).collect();
    let mut parts = text.split('|');
    let mut next = || names(parts.next().unwrap_or_default());
    (next(), next())
}

/// Where the process hears what it alone is told.
pub fn address(text: &str) -> Address {
    match text.split('|').nth(2) {
        Some("-") => Address::Deaf,
        Some(number) => u64::from_str_radix(number, 16).map_or(Address::Unknown, Address::Process),
        None => Address::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Name> {
        names.iter().map(|name| Name::new(*name).expect("a good name")).collect()
    }

    #[test]
    fn what_was_written_reads_back() {
        for (queues, kinds) in
            [(&[][..], &[][..]), (&["a", "b:c"], &["k"]), (&["a"], &[]), (&[], &["k", "l.-_"])]
        {
            let (queues, kinds) = (names(queues), names(kinds));
            for at in [Address::Unknown, Address::Deaf, Address::Process(0xa)] {
                let text = text_at(&queues, &kinds, at);
                assert_eq!((read(&text), address(&text)), ((queues.clone(), kinds.clone()), at));
            }
        }
    }

    #[test]
    fn kinds_are_bounded_and_queues_are_not() {
        let many: Vec<_> = (0..250).map(|number| format!("n{number}")).collect();
        let many = names(&many.iter().map(String::as_str).collect::<Vec<_>>());
        let (queues, kinds) = read(&text(&many, &many));
        assert_eq!((queues.len(), kinds.len()), (250, KINDS_KEPT));
    }

    #[test]
    fn what_does_not_read_is_left_out() {
        assert_eq!(read("a ?? b|k |x"), (names(&["a", "b"]), names(&["k"])));
        assert_eq!(address("a ?? b|k |x"), Address::Unknown);
    }
}
