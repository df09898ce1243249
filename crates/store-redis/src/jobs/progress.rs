//! Progress: what running attempts report of themselves, each stored only if its fence holds.

use bytes::{BufMut, Bytes, BytesMut};
use redis::Value;
use windlass_core::size::TooLarge;
use windlass_core::store::{Progress, Settled};
use windlass_core::{Name, State};

use super::settle::{by_queue, steps};
use crate::definitions::{ROUNDS, never_stands_still};
use crate::error::Fault;
use crate::row;
use crate::scripts::PROGRESS;
use crate::session::Session;
use crate::{Tools, answer, spread};

pub(super) async fn progress(
    tools: &Tools,
    session: &Session,
    reports: &[Progress],
) -> Result<Vec<Settled>, Fault> {
    let queues = by_queue(reports.iter().map(|report| &report.queue));
    let written = spread::each(queues, |(queue, places)| async move {
        let mut answers = Vec::with_capacity(places.len());
        for places in steps(&places, |place| (reports[place].id, reports[place].progress.len())) {
            let said = write(tools, session, queue, reports, places).await?;
            answers.extend(places.iter().copied().zip(said));
        }
        Ok(answers)
    });
    // To write a report once more changes nothing, so a fault is told as it is, whatever others were written.
    let mut answers = vec![None; reports.len()];
    for (place, said) in written.await?.into_iter().flatten() {
        answers[place] = Some(said);
    }
    Ok(answers.into_iter().flatten().collect())
}

async fn write(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    reports: &[Progress],
    places: &[usize],
) -> Result<Vec<Settled>, Fault> {
    for _ in 0..ROUNDS {
        let definition = tools.definitions.of(session, &tools.keys, queue).await?;
        let cap = definition.config.caps.output;
        let check = |report: &Progress| TooLarge::check("progress", report.progress.len(), cap);
        let each = || places.iter().map(|&place| &reports[place]);
        let mut arguments = vec![tools.clock(), definition.version(), places.len().to_string().into()];
        arguments.extend(each().map(|report| Bytes::copy_from_slice(report.id.as_bytes())));
        arguments.extend(each().map(|report| row::fence(report.fence)));
        arguments.extend(each().map(|report| match check(report) {
            Ok(()) => {
                let mut said = BytesMut::with_capacity(1 + report.progress.len());
                said.put_u8(b'0');
                said.put_slice(&report.progress);
                said.freeze()
            }
            Err(_) => Bytes::from_static(b"1"),
        }));
        let answer = session.run(&PROGRESS, tools.keys.queue(queue).all(), arguments).await?;
        let (word, mut rest) = answer::word(answer)?;
        if word[..] == *b"stale" {
            tools.definitions.forget(queue);
            continue;
        }
        let said = answer::bytes(rest.next().unwrap_or(Value::Nil))?;
        if said.len() != places.len() {
            return Err(Fault::Corrupt("a report was not answered".to_owned()));
        }
        let settled = |(report, said): (&Progress, u8)| match (said, check(report)) {
            (b'a', _) => Settled::Applied(State::Running),
            (b'l', Err(error)) => Settled::Refused(error),
            _ => Settled::Fenced,
        };
        return Ok(each().zip(said).map(settled).collect());
    }
    Err(never_stands_still())
}
