//! What a store does when completed jobs are not kept, as queues with much traffic have it. Beside it the raw limit
//! of the same tables or keys, and on PostgreSQL that of one narrow table, so that it is seen what tables cost.

use anyhow::Result;

use crate::raw::{self, Connections};
use crate::report::{Report, Whole};
use crate::subject::{Finished, Subject};
use crate::{Scale, ours, report};

pub(crate) async fn measure(
    subject: Subject,
    scale: Scale,
    connections: Connections,
    report: &mut Report,
) -> Result<()> {
    let (mut drain, mut whole) = (vec![], vec![]);
    let (mut raw_drain, mut raw_whole, mut bare) = (vec![], vec![], vec![]);
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: finished deleted, round {round} of {}", subject.name(), scale.rounds));
        raw_drain.push(raw::drain(subject, scale.jobs, Finished::Deleted, connections.drain).await?);
        drain.push(ours::drain(subject, scale.jobs, Finished::Deleted).await?);
        raw_whole.push(raw::whole(subject, scale.jobs, Finished::Deleted, connections.whole).await?);
        whole.push(ours::whole(subject, scale.jobs, Finished::Deleted).await?);
        if subject.is_postgres() {
            bare.push(raw::bare(subject, scale.jobs, connections.whole).await?);
        }
    }
    report.rate(
        subject,
        "run jobs that wait, finished deleted",
        report::median(&mut drain),
        &Connections::label("raw claim + delete", connections.drain),
        report::median(&mut raw_drain),
    );
    let (work, whole) = ("end to end, finished deleted", Whole::median(&whole));
    let beside = Connections::label("raw insert + claim + delete", connections.whole);
    report.whole(subject, work, whole, &beside, Whole::median(&raw_whole));
    if !bare.is_empty() {
        let beside = Connections::label("bare one-table limit", connections.whole);
        report.whole(subject, work, whole, &beside, Whole::median(&bare));
    }
    Ok(())
}
