//! Looks after jobs that died: sends those back that a rule is about, writes what follows the death of jobs that expired inside
//! the store, and keeps the index of queues that have one.
//!
//! All walk over the dead of a queue in the order of their deaths, from where the last round ended, and see each death once.
//! That is kept in records. Nothing is done for what died a moment ago: a write that is on its way may still put a death before
//! one that can be seen. Two rounds at once do the same things under the same ids, and one of them is told so.

mod stale;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::clock::Timestamp;
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::{EXPIRED, Forward, JobRecord, NewJob};
use windlass_core::outcome::Reason;
use windlass_core::record::{Expect, Record, RecordKey, RecordWrite, Version};
use windlass_core::store::{Amended, Duty, EndPlace, Ended, Enqueued, PAGE_MAX, Records, Seen, StoreResult};
use windlass_core::{CallId, Name, State, Store, StoreError, StoreErrorKind};

use super::{Round, Sweep};
use crate::dead::{
    DeadLetter, DeadRule, EXPIRING, HOME, INDEXED, REMEMBERED, RULES, Redriven, entries, place_key,
    redriven_key,
};
use crate::health::Part;
use crate::trace;

/// Deaths that one step looks at; as many records can be written at once.
const STEP: u32 = 100;
/// Steps of one round for one rule or queue. What is left comes in the next one, which follows at once.
const STEPS_MAX: u32 = 50;
/// How long a write may take to show a death whose instant it has set.
const HOLD_BACK: Duration = Duration::from_secs(30);

/// Sends dead jobs back by rules, and writes what follows jobs that expired.
#[derive(Clone)]
pub struct Redriver {
    store: Arc<dyn Store>,
    hold_back: Duration,
}

/// What one round of a [`Redriver`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedriveSummary {
    /// Deaths that were looked at.
    pub looked: u64,
    /// Jobs that were sent back.
    pub redriven: u64,
    /// Jobs that a rule is about and that were sent back as often as it permits.
    pub exhausted: u64,
    /// Jobs that were enqueued for others that had expired.
    pub followed: u64,
    /// There are more deaths to look at.
    pub has_more: bool,
}

/// How far rounds have come.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    /// The version of the rule or index that it is about: another one begins anew.
    of: Option<Version>,
    place: EndPlace,
}

/// What a walk is about.
enum About {
    Rule(Box<DeadRule>),
    Expired(Name),
    Index(Name),
}

impl About {
    fn queue(&self) -> &Name {
        match self {
            Self::Rule(rule) => &rule.queue,
            Self::Expired(queue) | Self::Index(queue) => queue,
        }
    }

    /// Only what died this long ago is looked at.
    fn age(&self) -> Duration {
        match self {
            Self::Rule(rule) => rule.after,
            Self::Expired(_) | Self::Index(_) => Duration::ZERO,
        }
    }
}

impl Redriver {
    /// A redriver for this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, hold_back: HOLD_BACK }
    }

    /// Looks at deaths that are at least this old, instead of half a minute. Where writes take longer than this, deaths are
    /// missed.
    #[must_use]
    pub fn hold_back(mut self, age: Duration) -> Self {
        self.hold_back = age;
        self
    }

    /// Looks at what died since the last round.
    ///
    /// # Errors
    /// The store's, after everything that could be done was done.
    pub async fn run_once(&self) -> StoreResult<RedriveSummary> {
        let mut summary = RedriveSummary::default();
        let Some(records) = self.store.records() else { return Ok(summary) };
        let home = Name::new(HOME).expect("it is a name");
        let (mut failed, mut now) = (None, None);
        // What follows an expired job first: a rule may send that job back, and its death is then not to be seen any more.
        for prefix in [EXPIRING, RULES, INDEXED] {
            let mut after = None;
            loop {
                let page = records.list(&home, prefix, after.as_ref(), PAGE_MAX).await?;
                for record in &page.records {
                    let Some(about) = about(record) else { continue };
                    let now = match now {
                        Some(now) => now,
                        None => *now.insert(self.store.now().await?),
                    };
                    let walk = Walk { redriver: self, records, home: &home, record, about: &about, now };
                    // A queue that cannot be asked keeps no other waiting.
                    if let Err(error) = walk.run(&mut summary).await {
                        failed = Some(error);
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        if summary.redriven + summary.followed > 0 {
            let RedriveSummary { redriven, exhausted, followed, .. } = summary;
            tracing::info!(redriven, exhausted, followed, "looked after jobs that had died");
        }
        failed.map_or(Ok(summary), Err)
    }
}

/// What a record of the rules is about; nothing for one that does not read.
fn about(record: &Record) -> Option<About> {
    let key = record.key.as_str();
    if let Some(queue) = key.strip_prefix(EXPIRING) {
        return Name::new(queue).ok().map(About::Expired);
    }
    if let Some(queue) = key.strip_prefix(INDEXED) {
        return Name::new(queue).ok().map(About::Index);
    }
    match DeadRule::read(record) {
        Ok(rule) => Some(About::Rule(Box::new(rule))),
        Err(why) => {
            tracing::warn!(why, "a rule for dead jobs is left out");
            None
        }
    }
}

/// One walk over the dead of a queue.
struct Walk<'a> {
    redriver: &'a Redriver,
    records: &'a dyn Records,
    home: &'a Name,
    record: &'a Record,
    about: &'a About,
    now: Timestamp,
}

impl Walk<'_> {
    async fn run(&self, summary: &mut RedriveSummary) -> StoreResult<()> {
        if let About::Index(queue) = self.about {
            stale::remove(&*self.redriver.store, self.records, self.home, queue).await?;
        }
        let store = &self.redriver.store;
        let latest = self.now.minus(self.about.age().max(self.redriver.hold_back));
        let key = place_key(self.record.key.as_str())?;
        let (mut place, mut version) = self.begin(&key).await?;
        for _ in 0..STEPS_MAX {
            let mut page = store.ended(self.about.queue(), State::Dead, place, STEP).await?;
            let is_full = page.len() == STEP as usize;
            page.retain(|ended| ended.place.at <= latest);
            let Some(last) = page.last() else { return Ok(()) };
            let is_whole = !is_full || page.len() < STEP as usize;
            place = last.place;
            let noted = match self.look(&page, summary).await {
                Ok(()) => self.note(&key, place, version).await,
                Err(error) => Err(error),
            };
            match noted {
                Ok(written) => version = Some(written),
                // Another round is at it, and has come as far.
                Err(StoreError::Conflict { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
            if is_whole {
                return Ok(());
            }
        }
        summary.has_more = true;
        Ok(())
    }

    /// Where to begin, and the version of the record that says so.
    async fn begin(&self, key: &RecordKey) -> StoreResult<(EndPlace, Option<Version>)> {
        let found = self.records.read(self.home, [key.clone()].into()).await?.pop().flatten();
        let first = match self.about {
            // What had expired before there was a mark was not promised anything.
            About::Expired(_) => EndPlace::since(self.record.written_at),
            About::Rule(_) | About::Index(_) => EndPlace::START,
        };
        let Some(found) = found else { return Ok((first, None)) };
        let place = serde_json::from_slice(&found.value).ok().filter(|place: &Place| place.of == self.of());
        Ok((place.map_or(first, |place| place.place), Some(found.version)))
    }

    /// A rule that was set anew begins anew, and an index that was; the mark of a queue only says that it is still used.
    fn of(&self) -> Option<Version> {
        match self.about {
            About::Rule(_) | About::Index(_) => Some(self.record.version),
            About::Expired(_) => None,
        }
    }

    async fn note(&self, key: &RecordKey, place: EndPlace, version: Option<Version>) -> StoreResult<Version> {
        let value = serde_json::to_vec(&Place { of: self.of(), place }).expect("numbers are JSON");
        let write =
            RecordWrite::put(key.clone(), value).expect(version.map_or(Expect::Absent, Expect::Version));
        let written = write.version().expect("a put has a version");
        self.write(self.home, vec![write]).await?;
        Ok(written)
    }

    async fn write(&self, queue: &Name, records: Vec<RecordWrite>) -> StoreResult<()> {
        let what = FollowUps { jobs: Vec::new(), records };
        self.records.write(CallId::new(), queue, what).await.map(drop)
    }

    /// Looks at some deaths.
    async fn look(&self, ended: &[Ended], summary: &mut RedriveSummary) -> StoreResult<()> {
        let found = self.redriver.store.get(ended.iter().map(|ended| ended.id).collect()).await?;
        let is_still = |(job, ended): &(JobRecord, &Ended)| {
            // A search shows also what does not read.
            let is_read = job.unreadable.is_none() || matches!(self.about, About::Index(_));
            job.state == State::Dead && job.finished_at == Some(ended.place.at) && is_read
        };
        let pairs = found.into_iter().zip(ended).filter_map(|(job, ended)| Some((job?, ended)));
        let dead: Vec<JobRecord> = pairs.filter(is_still).map(|(job, _)| job).collect();
        summary.looked += ended.len() as u64;
        match self.about {
            About::Rule(rule) => self.send_back(rule, dead, summary).await,
            About::Expired(_) => self.follow(dead, summary).await,
            About::Index(queue) => {
                let entries = entries(&dead, ended)?;
                match entries.is_empty() {
                    true => Ok(()),
                    false => self.write(queue, entries).await,
                }
            }
        }
    }

    /// Sends those back that the rule is about, counted before it is done: what ends between both is done by the next round
    /// and not counted again.
    async fn send_back(
        &self,
        rule: &DeadRule,
        dead: Vec<JobRecord>,
        summary: &mut RedriveSummary,
    ) -> StoreResult<()> {
        let letters = dead.into_iter().map(DeadLetter::of).filter(|letter| rule.matches(letter));
        let jobs: Vec<JobRecord> = letters.map(|letter| letter.job).collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let keys = jobs.iter().map(|job| redriven_key(job.id)).collect::<StoreResult<Vec<_>>>()?;
        let before = self.records.read(&rule.queue, keys.clone().into()).await?;
        let (mut writes, mut seen): (Vec<_>, Vec<Seen>) = Default::default();
        for ((job, key), before) in jobs.iter().zip(keys).zip(before) {
            match self.turn(rule, job, before.as_ref()) {
                Turn::Last => summary.exhausted += 1,
                Turn::Counted => seen.push(Seen::of(job)),
                Turn::Count(redriven) => {
                    let expect = before.map_or(Expect::Absent, |before| Expect::Version(before.version));
                    let value = serde_json::to_vec(&redriven).expect("numbers and names are JSON");
                    writes.push(RecordWrite::put(key, value).expect(expect).ttl(REMEMBERED));
                    seen.push(Seen::of(job));
                }
            }
        }
        if !writes.is_empty() {
            self.write(&rule.queue, writes).await?;
        }
        if !seen.is_empty() {
            let seen: Arc<[Seen]> = seen.into();
            let answers = self.redriver.store.retry_seen(Arc::clone(&seen)).await?;
            for (seen, answer) in seen.iter().zip(&answers) {
                if let Amended::Held(by) = answer {
                    tracing::warn!(
                        job.id = %seen.id, job.queue = %rule.queue, rule = %rule.name, held_by = %by,
                        "a dead job is not sent back by its rule: another job holds its unique key"
                    );
                }
            }
            let is_done = |answer: &&Amended| matches!(answer, Amended::Done(_));
            summary.redriven += answers.iter().filter(is_done).count() as u64;
        }
        Ok(())
    }

    /// Whether it is a job's turn.
    fn turn(&self, rule: &DeadRule, job: &JobRecord, before: Option<&Record>) -> Turn {
        let before = before.and_then(|record| serde_json::from_slice::<Redriven>(&record.value).ok());
        match &before {
            Some(before) if before.fence == job.fence => return Turn::Counted,
            Some(before) if before.count >= rule.most => return Turn::Last,
            _ => {}
        }
        let count = before.map_or(0, |before| before.count) + 1;
        Turn::Count(Redriven { count, rule: rule.name.clone(), fence: job.fence, at: self.now })
    }

    /// Enqueues what follows those that expired.
    async fn follow(&self, dead: Vec<JobRecord>, summary: &mut RedriveSummary) -> StoreResult<()> {
        for job in dead.iter().filter(|job| job.reason == Some(Reason::Expired)) {
            let mut told = job.spec.on_dead.as_ref().map(|hook| hook.for_expired(job));
            trace::inherit(job.spec.trace.as_ref(), &mut told);
            let sent_on = Forward::of_record(job).job(EXPIRED, job.reason, None);
            for new in [told, sent_on].into_iter().flatten() {
                summary.followed += u64::from(self.enqueue(job, new).await?);
            }
        }
        Ok(())
    }

    /// Enqueues a job for one that expired, under ids that follow from it: a second time it is known, even if it has run and is
    /// gone. Answers whether it was stored.
    async fn enqueue(&self, about: &JobRecord, job: NewJob) -> StoreResult<bool> {
        let call = CallId::from_bytes(*job.id.as_bytes());
        match self.redriver.store.enqueue_once(call, [job].into()).await {
            Ok(answers) => Ok(answers.contains(&Enqueued::New)),
            // Room comes again; anything else that is refused would be refused for ever.
            Err(error)
                if error.kind() == StoreErrorKind::Refused
                    && !matches!(error, StoreError::QueueFull { .. }) =>
            {
                tracing::error!(
                    job.id = %about.id, job.queue = %about.queue, %error,
                    "a job has expired, and what should be enqueued then is refused"
                );
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// What a rule does with a dead job.
enum Turn {
    /// It was sent back as often as it may be.
    Last,
    /// This death is counted: it is to be sent back.
    Counted,
    /// It is to be counted, then sent back.
    Count(Redriven),
}

impl Sweep for Redriver {
    const PART: Part = Part::Redriver;
    const DUTY: Duty = Duty::Redrive;

    async fn sweep(&self) -> StoreResult<Round> {
        self.run_once().await.map(|summary| if summary.has_more { Round::Cut } else { Round::Whole })
    }
}
