//! Delivery: transfers into their targets, and out of the stream.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use futures_util::future::join_all;
use redis::Value;
use windlass_core::Name;
use windlass_core::bell::{Rings, Topic};
use windlass_core::queue::check_rules;

use super::transfer::{Content, Posted, Transfer};
use crate::agenda::Notes;
use crate::definitions::rules;
use crate::error::{Fault, Unreachable};
use crate::script::flag;
use crate::scripts::{ENQUEUE, READ_TRANSFERS, REMOVE_TRANSFERS};
use crate::session::Session;
use crate::{Tools, answer};

/// Where the script that applies a transfer is told that its queue was entered.
const IS_ENTERED: usize = 5;

/// How often the stream is read in one delivery.
const READS_MAX: usize = 50;

/// Delivers what waits in the stream of a queue, in bounded steps. Answers how many transfers were delivered. Safe to be
/// called by many at once.
pub(crate) async fn deliver(tools: &Tools, session: &Session, source: &Name) -> Result<u32, Fault> {
    let delivery = Delivery::new(tools, session, source);
    let (delivered, fault) = delivery.waiting(&[], None).await;
    if delivered.iter().any(|(_, said)| said.iter().any(|said| matches!(said, b'r' | b's'))) {
        tools.ring(Rings::about(Topic::Work));
    }
    match fault {
        Some(fault) if delivered.is_empty() => Err(fault),
        _ => Ok(delivered.len() as u32),
    }
}

/// What targets said about transfers, by number; empty for one that was applied before.
type Answers = Vec<(u64, Bytes)>;

/// What came of a delivery.
#[derive(Default)]
pub(super) struct Delivered {
    pub(super) said: Answers,
    /// Why transfers are left, if any are.
    pub(super) fault: Option<Fault>,
}

impl Delivered {
    /// Without those that were applied before: nothing was said about them.
    fn told(mut self) -> Self {
        self.said.retain(|(_, said)| !said.is_empty());
        self
    }
}

/// One delivery from one source.
pub(super) struct Delivery<'a> {
    tools: &'a Tools,
    session: &'a Session,
    source: &'a Name,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(tools: &'a Tools, session: &'a Session, source: &'a Name) -> Self {
        Self { tools, session, source }
    }

    /// Delivers transfers that were posted when no others waited: several targets at once.
    pub(super) async fn own(&self, posted: Vec<Posted>) -> Delivered {
        let mut targets: HashMap<Name, Vec<Posted>> = HashMap::new();
        for transfer in posted {
            targets.entry(transfer.transfer.target.clone()).or_default().push(transfer);
        }
        let delivered = join_all(targets.into_values().map(|transfers| async move {
            let mut delivered = Delivered::default();
            for transfer in transfers {
                match self.apply(&transfer).await {
                    Ok(said) => delivered.said.push((transfer.number, said)),
                    Err(fault) => {
                        self.left(&transfer.transfer.target, &fault);
                        delivered.fault = Some(fault);
                        break;
                    }
                }
            }
            delivered
        }));
        let mut whole = Delivered::default();
        for delivered in delivered.await {
            whole.said.extend(delivered.said);
            whole.fault = whole.fault.or(delivered.fault);
        }
        if let Err(fault) = self.remove(whole.said.iter().map(|(number, _)| *number)).await {
            self.left(self.source, &fault);
        }
        whole.told()
    }

    /// Delivers what waits for some targets, up to a transfer: of transfers that were posted behind others, those before them
    /// for the same targets come first. What does not wait any more others have delivered.
    pub(super) async fn all_for(&self, targets: &HashSet<Name>, last: Option<u64>) -> Delivered {
        let targets: Vec<_> = targets.iter().cloned().collect();
        let (said, fault) = self.waiting(&targets, last).await;
        Delivered { said, fault }.told()
    }

    /// Delivers what waits for some targets, or for all if none is named, up to a transfer.
    async fn waiting(&self, targets: &[Name], last: Option<u64>) -> (Answers, Option<Fault>) {
        let (mut delivered, mut fault, mut away) = (Answers::new(), None, HashSet::new());
        let mut after = Bytes::from_static(b"0");
        for _ in 0..READS_MAX {
            let read = match self.read(&after, targets).await {
                Ok(read) => read,
                Err(error) => return (delivered, fault.or(Some(error))),
            };
            let begin = delivered.len();
            for (target, transfer) in read.transfers {
                if away.contains(&target) {
                    continue;
                }
                let said = match &transfer {
                    Ok(transfer) => self.apply(transfer).await.map(|said| (transfer.number, said)),
                    // It stays, and all for the same target behind it: to go on would lose what it says.
                    Err(what) => Err(Fault::Corrupt(what.clone())),
                };
                match said {
                    Ok(said) => delivered.push(said),
                    Err(error) => {
                        self.left(&target, &error);
                        away.insert(target);
                        fault = fault.or(Some(error));
                    }
                }
            }
            if let Err(error) = self.remove(delivered[begin..].iter().map(|(number, _)| *number)).await {
                return (delivered, fault.or(Some(error)));
            }
            match read.after {
                Some((number, next)) if last.is_none_or(|last| number < last) => after = next,
                _ => return (delivered, fault),
            }
        }
        (delivered, fault.or_else(|| Some(Unreachable::passing("many transfers wait").into())))
    }

    /// Applies a transfer in its target. Answers what that said of it, nothing if it was applied before.
    async fn apply(&self, posted: &Posted) -> Result<Bytes, Fault> {
        let Transfer { target, content } = &posted.transfer;
        let Content::Enqueue { jobs, offsets } = content;
        let registry = &self.tools.registry;
        let is_entered = registry.enter(self.session, &self.tools.keys, [target]).await?;
        let mut arguments = vec![
            self.tools.clock(),
            Bytes::new(),
            Bytes::copy_from_slice(self.source.as_str().as_bytes()),
            posted.number.to_string().into(),
            [&posted.seq[..], b" ", &posted.at].concat().into(),
            flag(is_entered),
            offsets.clone(),
            // The call is remembered where it was accepted.
            Bytes::new(),
        ];
        jobs.push_to(&mut arguments);
        let keys = self.tools.keys.queue(target).all();
        for _ in 0..2 {
            // The stream has it on as many replicas as are asked for; it must not leave it before the target has, too.
            let note = Notes::note(self.tools, self.session, target, jobs.needs());
            let write = self.session.run_acknowledged(&ENQUEUE, keys.clone(), arguments.clone());
            let (word, mut rest) = answer::word(tokio::join!(note, write).1?)?;
            let mut next = || rest.next().unwrap_or(Value::Nil);
            match &word[..] {
                b"known" => return Ok(Bytes::new()),
                b"ok" => {
                    let said = answer::bytes(next());
                    if next() == Value::Int(1) {
                        registry.confirm(self.session, &self.tools.keys, target).await;
                    }
                    return said;
                }
                // It is left to a program that knows the rule.
                b"rules" => check_rules(target, rules(next())?)?,
                b"unentered" => registry.enter_anew(self.session, &self.tools.keys, target).await?,
                _ => break,
            }
            arguments[IS_ENTERED] = flag(true);
        }
        Err(Fault::Corrupt("a transfer was answered with something else".to_owned()))
    }

    async fn read(&self, after: &Bytes, targets: &[Name]) -> Result<Read, Fault> {
        let mut arguments = vec![self.tools.clock(), after.clone()];
        arguments.extend(targets.iter().map(|target| Bytes::copy_from_slice(target.as_str().as_bytes())));
        let keys = self.tools.keys.queue(self.source).all();
        let mut answer =
            answer::array(self.session.run(&READ_TRANSFERS, keys, arguments).await?)?.into_iter();
        let next = answer::bytes(answer.next().unwrap_or(Value::Nil))?;
        let fields = answer::byte_strings(answer.next().unwrap_or(Value::Nil))?;
        let transfers = fields.chunks_exact(5).map(transfer).collect::<Result<_, _>>()?;
        let after = if next.is_empty() { None } else { Some((number(&next)?, next)) };
        Ok(Read { after, transfers })
    }

    async fn remove(&self, numbers: impl Iterator<Item = u64>) -> Result<(), Fault> {
        let mut arguments = vec![self.tools.clock()];
        arguments.extend(numbers.map(|number| Bytes::from(number.to_string())));
        if arguments.len() > 1 {
            let keys = self.tools.keys.queue(self.source).all();
            self.session.run(&REMOVE_TRANSFERS, keys, arguments).await?;
        }
        Ok(())
    }

    fn left(&self, target: &Name, fault: &Fault) {
        if let Fault::Corrupt(_) | Fault::Defect(_) = fault {
            // It does not pass: what was accepted waits until somebody looks.
            tracing::error!(source = %self.source, %target, ?fault, "a transfer cannot be delivered");
            return;
        }
        tracing::debug!(source = %self.source, %target, ?fault, "transfers are left for a later delivery");
    }
}

/// What a look into a stream found.
struct Read {
    /// Where to go on, if more wait.
    after: Option<(u64, Bytes)>,
    transfers: Vec<(Name, Result<Posted, String>)>,
}

fn transfer(fields: &[Bytes]) -> Result<(Name, Result<Posted, String>), Fault> {
    let number = number(&fields[0])?;
    let target = std::str::from_utf8(&fields[1]).ok().and_then(|text| Name::new(text).ok());
    let target = target.ok_or_else(|| Fault::Corrupt("a transfer goes to no queue".to_owned()))?;
    let posted = match Transfer::decode(target.clone(), fields[4].clone()) {
        Ok(transfer) => Ok(Posted { number, transfer, seq: fields[2].clone(), at: fields[3].clone() }),
        Err(fault) => Err(format!("transfer {number}: {fault:?}")),
    };
    Ok((target, posted))
}

fn number(text: &[u8]) -> Result<u64, Fault> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Fault::Corrupt("a transfer has no number".to_owned()))
}
