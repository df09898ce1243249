//! What a worker serves, as one text that every store keeps with its lease and shows, and none decides by.

use crate::name::Name;

/// The most kinds that are kept with a lease: they are for people to read.
pub const KINDS_KEPT: usize = 100;

/// The queues, then a bar and the kinds, with spaces between names: no name has either.
pub fn text(queues: &[Name], kinds: &[Name]) -> String {
    let joined = |names: &[Name]| names.iter().map(Name::as_str).collect::<Vec<_>>().join(" ");
    format!("{}|{}", joined(queues), joined(&kinds[..kinds.len().min(KINDS_KEPT)]))
}

/// Queues and kinds of such a text. A name that does not read is left out: the lease is shown all the same.
pub fn read(text: &str) -> (Vec<Name>, Vec<Name>) {
    let names = |text: &str| text.split(' ').filter_map(|name| Name::new(name).ok()).collect();
    let (queues, kinds) = text.split_once('|').unwrap_or((text, ""));
    (names(queues), names(kinds))
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
            assert_eq!(read(&text(&queues, &kinds)), (queues, kinds));
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
    }
}
