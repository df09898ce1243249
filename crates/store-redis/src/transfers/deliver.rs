//! Delivery: transfers into their targets, and out of the stream.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use futures_util::future::join_all;
use redis::Value;
use windlass_core::bell::{Rings, Topic};
use windlass_core::queue::check_rules;
use windlass_core::{JobId, Name};

use super::transfer::{Content, Posted, Transfer};
use crate::definitions::rules;
use crate::error::{Fault, Meaning, Unreachable};
use crate::jobs::enqueue;
use crate::jobs::packed::Packed;
use crate::script::flag;
use crate::scripts::{ENQUEUE, READ_TRANSFERS, REMOVE_TRANSFERS};
use crate::session::Session;
use crate::{Tools, answer};

/// Where the script that applies a transfer is told that its queue was entered.
const IS_ENTERED: usize = 5;

/// How often the stream is read in one delivery.
const READS_MAX: usize = 200;

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
        let names: HashMap<_, _> = posted.iter().map(|posted| (posted.number, posted.name.clone())).collect();
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
        let done = whole.said.iter().map(|(number, _)| (*number, names[number].clone()));
        if let Err(fault) = self.remove(done).await {
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
            let mut done = Vec::new();
            for (target, transfer) in read.transfers {
                if away.contains(&target) {
                    continue;
                }
                let said = match &transfer {
                    Ok(transfer) => self.apply(transfer).await.map(|said| {
                        done.push((transfer.number, transfer.name.clone()));
                        (transfer.number, said)
                    }),
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
            if let Err(error) = self.remove(done.into_iter()).await {
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
            // The call is remembered where it was accepted, and room was looked for then.
            Bytes::new(),
            Bytes::new(),
        ];
        for _ in 0..2 {
            // The stream has it on as many replicas as are asked for; it must not leave it before the target has, too.
            let run = enqueue::run(
                self.tools,
                self.session,
                &ENQUEUE,
                target,
                arguments.clone(),
                jobs,
                jobs.needs(),
            );
            let (word, mut rest) = run.await?;
            let mut next = || rest.next().unwrap_or(Value::Nil);
            match &word[..] {
                b"known" => return Ok(Bytes::new()),
                b"ok" => {
                    let said = answer::bytes(next());
                    said.iter().for_each(|said| self.tell_dropped(target, jobs, said));
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

    /// A job whose id another one has taken, since the transfer was posted or before, is gone.
    fn tell_dropped(&self, target: &Name, jobs: &Packed, said: &[u8]) {
        for (id, _) in jobs.ids.iter().zip(said).filter(|(_, said)| **said == b't') {
            let id = <[u8; 16]>::try_from(&id[..]).map(JobId::from_bytes).ok();
            tracing::error!(source = %self.source, %target, ?id, "a job is dropped: another one has its id");
        }
    }

    async fn read(&self, after: &Bytes, targets: &[Name]) -> Result<Read, Fault> {
        let mut arguments = vec![self.tools.clock(), after.clone()];
        arguments.extend(targets.iter().map(|target| Bytes::copy_from_slice(target.as_str().as_bytes())));
        let keys = self.tools.keys.queue(self.source).all();
        let mut answer =
            answer::array(self.session.run(&READ_TRANSFERS, keys, arguments).await?)?.into_iter();
        let next = answer::bytes(answer.next().unwrap_or(Value::Nil))?;
        let fields = answer::byte_strings(answer.next().unwrap_or(Value::Nil))?;
        let found = fields.chunks_exact(6).map(Found::read).collect::<Result<Vec<_>, _>>()?;
        let transfers = self.contents(found).await?;
        let after = if next.is_empty() { None } else { Some((number(&next)?, next)) };
        Ok(Read { after, transfers })
    }

    /// Reads what is kept apart from the stream. Transfers that have gone meanwhile others have delivered.
    async fn contents(&self, found: Vec<Found>) -> Result<Vec<Addressed>, Fault> {
        let names: Vec<_> =
            found.iter().filter(|found| !found.name.is_empty()).map(|found| &found.name[..]).collect();
        let mut apart = Vec::new();
        if !names.is_empty() {
            let key = self.tools.keys.queue(self.source).contents();
            let read = redis::cmd("HMGET").arg(&key[..]).arg(&names).to_owned();
            apart = match self.session.command(read).await {
                // The key holds another kind of content: each of these transfers stays, and no other.
                Err(Fault::Server(error)) if matches!(error.meaning, Meaning::Corrupt(_)) => Vec::new(),
                answer => answer::array(answer?)?,
            };
        }
        let mut apart = apart.into_iter();
        let mut transfers = Vec::with_capacity(found.len());
        for mut found in found {
            if !found.name.is_empty() {
                match answer::optional_bytes(apart.next().unwrap_or(Value::Nil))? {
                    Some(content) => found.content = content,
                    None if !self.waits(found.number).await? => continue,
                    None => {}
                }
            }
            transfers.push(found.decoded());
        }
        Ok(transfers)
    }

    /// Whether a transfer still stands in the stream.
    async fn waits(&self, number: u64) -> Result<bool, Fault> {
        let (key, number) = (self.tools.keys.queue(self.source).transfers(), format!("{number}-0"));
        let read = redis::cmd("XRANGE").arg(&key[..]).arg(&number).arg(&number).to_owned();
        Ok(!answer::array(self.session.command(read).await?)?.is_empty())
    }

    async fn remove(&self, done: impl Iterator<Item = (u64, Bytes)>) -> Result<(), Fault> {
        let mut arguments = vec![self.tools.clock()];
        arguments.extend(done.flat_map(|(number, name)| [Bytes::from(number.to_string()), name]));
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

/// A transfer for a queue, or why it does not read.
type Addressed = (Name, Result<Posted, String>);

/// What a look into a stream found.
struct Read {
    /// Where to go on, if more wait.
    after: Option<(u64, Bytes)>,
    transfers: Vec<Addressed>,
}

/// A transfer as it stands in a stream.
struct Found {
    number: u64,
    target: Name,
    seq: Bytes,
    at: Bytes,
    /// The name under which its content is kept; empty if the content stands here.
    name: Bytes,
    content: Bytes,
}

impl Found {
    fn read(fields: &[Bytes]) -> Result<Self, Fault> {
        let number = number(&fields[0])?;
        let target = std::str::from_utf8(&fields[1]).ok().and_then(|text| Name::new(text).ok());
        let target = target.ok_or_else(|| Fault::Corrupt("a transfer goes to no queue".to_owned()))?;
        let said = fields[5].clone();
        let (name, content) = if fields[4] == "name" { (said, Bytes::new()) } else { (Bytes::new(), said) };
        Ok(Self { number, target, seq: fields[2].clone(), at: fields[3].clone(), name, content })
    }

    fn decoded(self) -> Addressed {
        let Self { number, target, seq, at, name, content } = self;
        let posted = match Transfer::decode(target.clone(), content) {
            Ok(transfer) => Ok(Posted { number, transfer, name, seq, at }),
            Err(fault) => Err(format!("transfer {number}: {fault:?}")),
        };
        (target, posted)
    }
}

fn number(text: &[u8]) -> Result<u64, Fault> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Fault::Corrupt("a transfer has no number".to_owned()))
}
