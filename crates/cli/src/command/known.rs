//! Names that a filter says and that the store does not know. Most are slips, so the answer says which name was meant.
//! Commands ask only after they have found no job: a name that finds jobs costs nothing.

use std::collections::BTreeSet;

use windlass::Client;
use windlass_core::queue::QueueRecord;
use windlass_core::store::{Filter, PAGE_MAX};
use windlass_core::{JobRecord, Name};

use crate::exit::Fault;
use crate::session::Session;

/// How many queues one store call reads.
const QUEUES_PAGE: u32 = 1_000;
/// Leases that are looked at.
pub(crate) const LEASES_MAX: u32 = 1_000;
/// Store calls that look for a kind or a tag. What was not found by then may exist.
const CALLS_MAX: usize = 10;
/// Jobs among which a similar kind or tag is looked for; each comes with its payload.
const SAMPLE: u32 = 100;
/// Names that are listed where none is similar.
const LISTED_MAX: usize = 5;

/// Every queue of the store.
pub(crate) async fn queues(client: &Client) -> anyhow::Result<Vec<QueueRecord>> {
    let mut queues: Vec<QueueRecord> = Vec::new();
    loop {
        let after = queues.last().map(|queue| queue.name.clone());
        let page = client.queues(after.as_ref(), QUEUES_PAGE).await?;
        let is_last = page.len() < QUEUES_PAGE as usize;
        queues.extend(page);
        if is_last {
            return Ok(queues);
        }
    }
}

/// Refuses a queue that was never defined, holds no job and is served by no worker. A kind or a tag of no job at all is
/// only noted: stores keep no list of them, and jobs of a kind come and go.
pub(crate) async fn check(session: &Session, client: &Client, filter: &Filter) -> anyhow::Result<()> {
    if let Some(queue) = &filter.queue {
        check_queue(client, queue).await?;
    }
    let only_kind = Filter { kind: filter.kind.clone(), ..Filter::default() };
    let only_tag = Filter { tag: filter.tag.clone(), ..Filter::default() };
    if let Some(kind) = &filter.kind
        && is_unknown(client, &only_kind).await?
    {
        let meant = among_jobs(client, kind, |job| vec![job.kind.clone()]).await?;
        session.note(&format!("the store has no job of kind {kind}{meant}"));
    }
    if let Some(tag) = &filter.tag
        && is_unknown(client, &only_tag).await?
    {
        let meant = among_jobs(client, tag, |job| job.tags.clone()).await?;
        session.note(&format!("the store has no job with tag {tag}{meant}"));
    }
    Ok(())
}

/// Refuses a queue that neither the store nor a worker knows.
pub(crate) async fn check_queue(client: &Client, queue: &Name) -> anyhow::Result<()> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    known.extend(queues(client).await?.into_iter().map(|queue| queue.name.into()));
    let leases = client.workers(LEASES_MAX).await?;
    if leases.len() >= LEASES_MAX as usize {
        return Ok(());
    }
    known.extend(leases.into_iter().flat_map(|lease| lease.queues).map(String::from));
    refuse_unless(&known, "queue", queue.as_str())
}

/// Refuses the label of a worker that has no lease.
pub(crate) async fn check_worker(client: &Client, worker: &str) -> anyhow::Result<()> {
    let leases = client.workers(LEASES_MAX).await?;
    // There may be more: then a label that is not among these may still be one.
    if leases.len() >= LEASES_MAX as usize {
        return Ok(());
    }
    let known: BTreeSet<String> = leases.into_iter().map(|lease| lease.worker).collect();
    refuse_unless(&known, "worker", worker)
}

fn refuse_unless(known: &BTreeSet<String>, what: &str, wanted: &str) -> anyhow::Result<()> {
    if known.contains(wanted) {
        return Ok(());
    }
    let listed = known.iter().take(LISTED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let dots = if known.len() > LISTED_MAX { ", …" } else { "" };
    Err(Fault::usage(match nearest(wanted, known) {
        Some(name) => format!("there is no {what} {wanted}, did you mean {name}?"),
        None if known.is_empty() => format!("there is no {what} {wanted}: the store has none"),
        None => format!("there is no {what} {wanted}: the store has {listed}{dots}"),
    })
    .into())
}

/// Whether no job at all is found. Not known where that takes too many calls.
async fn is_unknown(client: &Client, filter: &Filter) -> anyhow::Result<bool> {
    let mut next = None;
    for _ in 0..CALLS_MAX {
        let page = client.list(filter, next.as_ref(), 1).await?;
        next = page.next;
        if !page.jobs.is_empty() {
            return Ok(false);
        }
        if next.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The similar name that one of the newest jobs has, as the end of a sentence.
async fn among_jobs(
    client: &Client,
    wanted: &Name,
    names: impl Fn(&JobRecord) -> Vec<Name>,
) -> anyhow::Result<String> {
    let page = client.list(&Filter::default(), None, SAMPLE.min(PAGE_MAX)).await?;
    let known: BTreeSet<String> = page.jobs.iter().flat_map(names).map(String::from).collect();
    Ok(nearest(wanted.as_str(), &known).map(|name| format!(", did you mean {name}?")).unwrap_or_default())
}

/// The known name that is one slip away, or one for every three characters.
fn nearest<'a>(wanted: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    let reach = (wanted.chars().count() / 3).max(1);
    let lower = wanted.to_lowercase();
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name.as_str()))
        .filter(|(slips, _)| *slips <= reach)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_meant_when_few_slips_lead_to_it() {
        let known: BTreeSet<String> =
            ["default", "mail", "mail.bulk", "reports"].into_iter().map(str::to_owned).collect();
        for (wanted, meant) in [
            ("nail", Some("mail")),
            ("mial", Some("mail")),
            ("MAIL", Some("mail")),
            ("report", Some("reports")),
            ("mailbulk", Some("mail.bulk")),
            ("x", None),
            ("invoices", None),
        ] {
            assert_eq!(nearest(wanted, &known), meant, "{wanted}");
        }
    }
}
