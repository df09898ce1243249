//! Who holds a lease: the worker's label and the queues that it serves. They never change, so this process remembers
//! them of the leases that it opened or asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use windlass_core::bell::Address;
use windlass_core::store::{NewLease, serves};
use windlass_core::{LeaseId, Name};

use super::copies::Copies;
use crate::error::Fault;
use crate::format::LEASE;
use crate::session::Session;
use crate::{Tools, answer};

/// The most leases that are remembered; a process has few.
const REMEMBERED_MAX: usize = 1_000;

/// Where the label begins in the record of a lease, after the instant of its opening.
pub(super) const OPENED_BYTES: usize = LEASE.before("rest");

/// The holder of a lease.
#[derive(Debug)]
pub(crate) struct Holder {
    /// The worker's label, as it is kept.
    pub(crate) label: String,
    /// The queues that it serves.
    pub(crate) queues: Vec<Name>,
    /// The kinds that it runs.
    pub(crate) kinds: Vec<Name>,
    /// Where its process hears what it alone is told.
    pub(crate) address: Address,
    /// Where the lease lives.
    pub(crate) copies: Copies,
}

impl Holder {
    /// Who will hold a lease.
    pub(super) fn of(lease: &NewLease, address: Address) -> Self {
        let (label, queues, kinds) = (lease.label(), lease.queues.clone(), lease.kinds.clone());
        Self { label, queues, kinds, address, copies: Copies::default() }
    }

    /// As it is stored: the length of the label, the label, and what the worker serves.
    pub(super) fn pack(&self) -> Bytes {
        let length = u16::try_from(self.label.len()).expect("a kept label is short");
        let mut packed = BytesMut::new();
        packed.put_u16(length);
        packed.put_slice(self.label.as_bytes());
        packed.put_slice(serves::text_at(&self.queues, &self.kinds, self.address).as_bytes());
        packed.freeze()
    }

    /// What [`pack`](Self::pack) made.
    pub(super) fn unpack(packed: &[u8]) -> Result<Self, Fault> {
        Self::read(packed)
            .ok_or_else(|| Fault::Corrupt("a lease has a record that cannot be read".to_owned()))
    }

    fn read(packed: &[u8]) -> Option<Self> {
        let (label, served) = parts(packed)?;
        let (queues, kinds) = serves::read(served);
        let (label, address) = (label.to_owned(), serves::address(served));
        Some(Self { label, queues, kinds, address, copies: Copies::default() })
    }
}

/// What the worker of a lease serves, as it is stored.
pub(super) fn served(packed: &[u8]) -> Option<&str> {
    parts(packed).map(|(_, served)| served)
}

/// The label and what the worker serves.
fn parts(packed: &[u8]) -> Option<(&str, &str)> {
    let (length, rest) = packed.split_first_chunk()?;
    let (label, served) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some((std::str::from_utf8(label).ok()?, std::str::from_utf8(served).ok()?))
}

/// Holders that this process knows.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    known: Mutex<HashMap<LeaseId, Arc<Holder>>>,
}

impl Holders {
    /// The holder of a lease, unless it has been forgotten.
    pub(crate) async fn of(
        tools: &Tools,
        session: &Session,
        lease: LeaseId,
    ) -> Result<Option<Arc<Holder>>, Fault> {
        if let Some(holder) = tools.holders.known().get(&lease) {
            return Ok(Some(Arc::clone(holder)));
        }
        let mut get = redis::cmd("HGET");
        get.arg(&tools.keys.leases()[..]).arg(&lease.as_bytes()[..]);
        let Some(record) = answer::optional_bytes(session.command(get).await?)? else {
            return Ok(None);
        };
        let holder = Arc::new(Holder::unpack(record.get(OPENED_BYTES..).unwrap_or_default())?);
        Ok(Some(tools.holders.remember(lease, holder)))
    }

    /// One that is known already stays: it knows of its copies.
    pub(super) fn remember(&self, lease: LeaseId, holder: Arc<Holder>) -> Arc<Holder> {
        let mut known = self.known();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        Arc::clone(known.entry(lease).or_insert(holder))
    }

    /// The queues of all that are known.
    pub(crate) fn queues(&self) -> Vec<Name> {
        self.known().values().flat_map(|holder| holder.queues.iter().cloned()).collect()
    }

    pub(super) fn forget(&self, lease: LeaseId) {
        self.known().remove(&lease);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<LeaseId, Arc<Holder>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_reads_back() {
        let name = |text: &str| Name::new(text).unwrap();
        for queues in [vec![], vec![name("q")], vec![name("b:c"), name("a.-_")]] {
            for label in ["", "höst «☃»", "a b"] {
                let copies = Copies::default();
                let holder = Holder {
                    label: label.to_owned(),
                    queues: queues.clone(),
                    kinds: vec![name("k")],
                    address: Address::Process(7),
                    copies,
                };
                let read = Holder::unpack(&holder.pack()).ok().map(|holder| (holder.label, holder.queues));
                assert_eq!(read, Some((label.to_owned(), queues.clone())));
            }
        }
    }

    #[test]
    fn what_is_no_holder_is_told() {
        for bytes in [&b""[..], b"\0", b"\0\x05abc", b"\0\x01a\xff"] {
            assert!(Holder::unpack(bytes).is_err(), "{bytes:?}");
        }
    }
}
