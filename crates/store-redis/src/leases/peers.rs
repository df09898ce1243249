//! Which workers live and what they serve, for those that choose whom to wake.

use bytes::Bytes;
use windlass_core::bell::{Peer, Peers};
use windlass_core::clock::Clock;

use super::holders::{OPENED_BYTES, served};
use crate::answer;
use crate::error::Fault;
use crate::keys::Keys;
use crate::scripts::LIST_RECORDS;
use crate::session::Session;

/// How many leases one script reads, and how many scripts there are at most.
const STEP: usize = 250;
const STEPS_MAX: usize = 4;

/// The workers whose leases live, the newest first.
pub(crate) async fn peers(keys: &Keys, clock: Option<&dyn Clock>, session: &Session) -> Result<Peers, Fault> {
    let time = clock.map_or_else(Bytes::new, |clock| clock.now().as_micros().to_string().into());
    let record_keys = || vec![keys.leases(), keys.lease_expiry(), keys.lease_order()];
    let mut before = Bytes::from_static(b"+inf");
    let mut peers = Vec::new();
    for _ in 0..STEPS_MAX {
        let arguments = vec![time.clone(), before, STEP.to_string().into()];
        let page = answer::array(session.run(&LIST_RECORDS, record_keys(), arguments).await?)?;
        let mut page = page.into_iter();
        let (Some(now), Some(next)) = (page.next(), page.next()) else {
            return Err(Fault::Corrupt("a page of leases has no time".to_owned()));
        };
        before = answer::bytes(next)?;
        let (now, mut count) = (answer::integer(now)?, 0);
        while let (Some(_id), Some(record), Some(expiry)) = (page.next(), page.next(), page.next()) {
            count += 1;
            let record = answer::bytes(record)?;
            // One that does not read is not woken, and polls.
            if let Some(served) = record.get(OPENED_BYTES..).and_then(served)
                && answer::integer(expiry)? > now
            {
                peers.push(Peer::read(served));
            }
        }
        if count < STEP {
            break;
        }
    }
    Ok(peers.into_iter().collect())
}
