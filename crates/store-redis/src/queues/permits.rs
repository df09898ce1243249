//! What the rate of a queue permits, for people who look: claims ask `claim/rates.lua`.

use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Permits, Rate, Shape, Spent};

use super::number;
use crate::error::Fault;
use crate::format::SPENT;
use crate::scripts::NOW;
use crate::session::Session;
use crate::{Tools, answer};

pub(super) async fn left(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    rate: Rate,
) -> Result<Permits, Fault> {
    let keys = tools.keys.queue(queue);
    let now = session.run(&NOW, vec![keys.meta()], vec![tools.clock()]).await?;
    let now = answer::integer(now).map(Timestamp::from_micros)?;
    let mut get = redis::cmd("HMGET");
    get.arg(&keys.meta()[..]).arg("full").arg("spent");
    let mut fields = answer::array(session.command(get).await?)?.into_iter();
    let (full_at, out) = (number(fields.next())?, number(fields.next())?);
    let spent = match rate.shape {
        Shape::Bucket { .. } => vec![Spent { back_at: Timestamp::from_micros(full_at), jobs: 0 }],
        // Entries of before, which the next claim removes.
        _ if out == 0 => Vec::new(),
        _ => {
            let mut range = redis::cmd("ZRANGE");
            range.arg(&keys.spent()[..]).arg(0).arg(-1);
            let members = answer::byte_strings(session.command(range).await?)?;
            members.iter().filter_map(|member| spent(member)).collect()
        }
    };
    Ok(rate.permits(spent, now))
}

/// An entry of the order of permits that are out; nothing if it does not read.
fn spent(member: &[u8]) -> Option<Spent> {
    let field = |at: usize| Some(i64::from_be_bytes(*member.get(at..)?.first_chunk()?));
    let (back_at, jobs) = (field(const { SPENT.before("back") })?, field(const { SPENT.before("jobs") })?);
    Some(Spent { back_at: Timestamp::from_micros(back_at), jobs: u64::try_from(jobs).ok()? })
}
