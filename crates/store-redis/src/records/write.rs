//! Records of a queue, and jobs for it, in one script: all or nothing.

use redis::Value;
use windlass_core::follow_ups::FollowUps;
use windlass_core::store::Enqueued;
use windlass_core::{CallId, Name, StoreError};

use super::stored;
use crate::agenda::Notes;
use crate::error::Fault;
use crate::jobs::enqueue::{self, Beside};
use crate::script::flag;
use crate::scripts::WRITE_REMEMBERED;
use crate::session::Session;
use crate::{Tools, answer};

pub(super) async fn write(
    tools: &Tools,
    session: &Session,
    call: CallId,
    queue: &Name,
    what: &FollowUps,
) -> Result<Vec<Enqueued>, Fault> {
    let mut arguments = vec![what.records.len().to_string().into()];
    stored::push_changes(&mut arguments, &what.records);
    let needs = stored::needs(&what.records);
    let refusal = |mut rest: std::vec::IntoIter<Value>| conflict(what, &mut rest);
    let beside = Beside { arguments, needs, refusal: &refusal };
    match what.jobs.is_empty() {
        true => write_records(tools, session, queue, &beside).await.map(|()| Vec::new()),
        false => enqueue::enqueue_with(tools, session, call, queue, &what.jobs, &beside).await,
    }
}

/// Which record is not as expected.
fn conflict(what: &FollowUps, rest: &mut std::vec::IntoIter<Value>) -> Result<StoreError, Fault> {
    let mut next = || rest.next().unwrap_or(Value::Nil);
    let (place, found) = (answer::integer(next())?, answer::bytes(next())?);
    let write = usize::try_from(place - 1).ok().and_then(|place| what.records.get(place));
    let write = write.ok_or_else(|| Fault::Corrupt("a record was refused that is none".to_owned()))?;
    Ok(StoreError::Conflict { key: write.key.clone(), found: stored::version(&found) })
}

/// Records alone. The call is not remembered: versions tell a repeat.
async fn write_records(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    beside: &Beside<'_>,
) -> Result<(), Fault> {
    let mut is_entered = tools.registry.enter(session, &tools.keys, [queue]).await?;
    for _ in 0..2 {
        let none = bytes::Bytes::new;
        let mut arguments = vec![tools.clock(), none(), none(), none(), none(), flag(is_entered)];
        arguments.extend([none(), none(), none()]);
        arguments.extend(beside.arguments.iter().cloned());
        enqueue::push_no_jobs(&mut arguments);
        let note = Notes::note(tools, session, queue, beside.needs);
        let keys = tools.keys.queue(queue).all();
        let write = session.run_acknowledged(&[], &WRITE_REMEMBERED, keys, arguments);
        let (word, mut rest) = answer::word(tokio::join!(note, write).1?)?;
        match &word[..] {
            b"unentered" => {
                tools.registry.enter_anew(session, &tools.keys, queue).await?;
                is_entered = true;
            }
            b"ok" => {
                if rest.nth(1) == Some(Value::Int(1)) {
                    tools.registry.confirm(session, &tools.keys, queue).await;
                }
                return Ok(());
            }
            b"conflict" => return Err((beside.refusal)(rest)?.into()),
            _ => break,
        }
    }
    Err(Fault::Corrupt("a write of records was answered with something else".to_owned()))
}
