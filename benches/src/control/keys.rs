//! What keys cost: turns between many of them and limits that do not bind, beside the same jobs without a key; and a key that
//! is closed in front of the others.

use anyhow::Result;
use windlass::queue::{KeyRules, QueueConfig};
use windlass::worker::{Job as _, Pausing};
use windlass::{Client, Options};

use super::{Scale, define};
use crate::ours::{self, BULK, Nothing};
use crate::report::{self, Report};
use crate::subject::{Finished, Subject};

/// How many keys the jobs have.
const KEYS: u32 = 10_000;

pub(super) async fn run(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    let turns = KeyRules::default();
    let limits = KeyRules { concurrency: Some(1_000_000), ..KeyRules::default() };
    let (mut plain, mut turned, mut limited) = (vec![], vec![], vec![]);
    let (mut open, mut closed) = (vec![], vec![]);
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: keys, round {round} of {}", subject.name(), scale.rounds));
        plain.push(ours::drain(subject, scale.jobs, Finished::Kept).await?);
        turned.push(drain(subject, scale.jobs, &turns, 0).await?);
        limited.push(drain(subject, scale.jobs, &limits, 0).await?);
        open.push(drain(subject, scale.jobs / 4, &turns, 0).await?);
        closed.push(drain(subject, scale.jobs / 4, &turns, scale.front).await?);
    }
    let (plain, open) = (report::median(&mut plain), report::median(&mut open));
    for (work, mut found) in [("in turn", turned), ("with a limit that does not bind", limited)] {
        let work = format!("run jobs of 10,000 keys, {work}");
        report.rate(subject, &work, report::median(&mut found), "no key", plain);
    }
    let work = format!("run jobs behind {} of a closed key", scale.front);
    report.rate(subject, &work, report::median(&mut closed), "nothing in front", open);
    Ok(())
}

/// Jobs per second of many keys, with so many of a paused key in front of them.
async fn drain(subject: Subject, jobs: u32, rules: &KeyRules, front: u32) -> Result<f64> {
    let place = subject.place()?;
    let client = place.client().await?;
    define(&client, &QueueConfig { keys: Some(rules.clone()), ..QueueConfig::default() }).await?;
    client.queue("default")?.pause_key("closed", Pausing::new()).await?;
    fill(&client, front, |_| "closed".to_owned()).await?;
    fill(&client, jobs, |i| format!("key-{}", i % KEYS)).await?;
    ours::drain_filled(&client, jobs).await
}

async fn fill(client: &Client, jobs: u32, key: impl Fn(u32) -> String) -> Result<()> {
    for start in (0..jobs).step_by(BULK as usize) {
        let some = (start..jobs.min(start + BULK)).map(|i| Nothing { i }.with(Options::new().key(key(i))));
        client.enqueue_all(some).await?;
    }
    Ok(())
}
