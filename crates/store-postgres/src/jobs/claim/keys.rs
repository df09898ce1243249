//! What a claim says of jobs that have a key: the order in which all of its jobs were chosen, and who has which key. Claims of
//! jobs without one say neither.

use std::collections::HashMap;

use windlass_core::Name;

use crate::error::Fault;

/// Places and keys by the numbers of jobs.
#[derive(Debug, Default)]
pub(super) struct Order {
    places: HashMap<i64, usize>,
    keys: HashMap<i64, String>,
}

impl Order {
    /// Reads the numbers of all jobs, in their order, and number and key of each that has one; both separated by
    /// commas, and empty where there are none.
    pub(super) fn read(order: Option<&str>, keys: Option<&str>) -> Result<Self, Fault> {
        let misread = |said: &str| Fault::Corrupt(format!("a claim said {said:?} of its jobs"));
        let number = |text: &str| text.parse::<i64>().map_err(|_| misread(text));
        let (mut places, mut by_number) = (HashMap::new(), HashMap::new());
        for (place, seq) in said(order).enumerate() {
            places.insert(number(seq)?, place);
        }
        for said in said(keys) {
            let (seq, key) = said.split_once(' ').ok_or_else(|| misread(said))?;
            by_number.insert(number(seq)?, key.to_owned());
        }
        Ok(Self { places, keys: by_number })
    }

    /// The place of a job, where the claim says it.
    pub(super) fn place(&self, seq: i64) -> Option<usize> {
        self.places.get(&seq).copied()
    }

    /// The key of a job.
    pub(super) fn key(&self, seq: i64) -> Result<Option<Name>, Fault> {
        let key = self.keys.get(&seq).map(Name::new).transpose();
        key.map_err(|error| Fault::Corrupt(format!("a key does not read: {error}")))
    }
}

/// What stands between commas; nothing in an empty text.
fn said(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.filter(|text| !text.is_empty()).into_iter().flat_map(|text| text.split(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_keys_are_read() {
        let order = Order::read(Some("8,6,12"), Some("6 a:1,12 b")).unwrap();
        assert_eq!([8, 6, 12, 4].map(|seq| order.place(seq)), [Some(0), Some(1), Some(2), None]);
        assert_eq!(order.key(6).unwrap(), Some(Name::new("a:1").unwrap()));
        assert_eq!(order.key(8).unwrap(), None);
        assert_eq!(Order::read(Some("8"), Some("")).unwrap().place(8), Some(0));
        let none = Order::read(None, None).unwrap();
        assert_eq!((none.place(8), none.key(8).unwrap()), (None, None));
        assert!(Order::read(Some("x"), None).is_err() && Order::read(None, Some("7")).is_err());
    }
}
