//! Calendars, as callers set and look at them: `client.calendar("spain")`. Each is a record under its name in a queue of the
//! engine's own that holds no jobs. Schedules that name it have a copy of its days; a calendar that is set brings the copies up to
//! date, and maintenance does so with those that were missed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use windlass_core::record::RecordKey;
use windlass_core::schedule::{Calendar, ScheduleInvalid, check_calendar};
use windlass_core::store::PAGE_MAX;

use super::{ScheduleSet, ScheduleView, index, write};
use crate::client::{Client, Records, decoded};
use crate::error::Result;

/// The queue of their records.
const QUEUE: &str = "windlass.calendars";

/// Days without slots that schedules share, under a name. [`Client::calendar`] makes it; it need not exist yet.
#[derive(Clone)]
pub struct CalendarHandle {
    client: Client,
    name: String,
}

/// What became of a calendar that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CalendarAnswer {
    /// Whether it was there, and said the same.
    pub set: ScheduleSet,
    /// Schedules that rest on other days than before.
    pub moved: u64,
}

/// A page of calendars.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CalendarPage {
    /// The calendars, by name.
    pub calendars: Vec<(String, Calendar)>,
    /// After which name the next page begins; nothing at the end.
    pub next: Option<String>,
}

impl Client {
    /// A calendar, by its name: days on which schedules that name it have no slots. Asks the store nothing yet.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass_worker::Result<()> {
    /// # use std::sync::Arc;
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Report;
    /// # impl windlass_worker::Job for Report { const KIND: &'static str = "report"; type Output = (); }
    /// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    /// client.calendar("spain").set(["01-01", "10-12", "12-25", "2026-04-03"]).await?;
    /// client.schedule("closing").cron("0 20 * * MON-FRI").calendar("spain").enqueue(Report).await?;
    /// // Setting it again moves the schedules that name it.
    /// # let again =
    /// client.calendar("spain").set(["01-01", "10-12", "12-25", "2026-04-03", "2027-03-26"]).await?;
    /// # assert_eq!(again.moved, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn calendar(&self, name: impl Into<String>) -> CalendarHandle {
        CalendarHandle { client: self.clone(), name: name.into() }
    }

    /// Calendars by name, after the given one, at most `limit` and 1,000.
    ///
    /// # Errors
    /// The store's.
    pub async fn calendars(&self, after: Option<&str>, limit: u32) -> Result<CalendarPage> {
        let after = after.map(RecordKey::new).transpose()?;
        let page = records(self)?.list("", after.as_ref(), limit.min(PAGE_MAX)).await?;
        let named = |record: windlass_core::record::Record| {
            let name = record.key.to_string();
            // One that does not read hides no other.
            decoded::<Calendar>(record).ok().map(|calendar| (name, calendar.value))
        };
        let calendars = page.records.into_iter().filter_map(named).collect();
        Ok(CalendarPage { calendars, next: page.next.map(|key| key.to_string()) })
    }
}

impl CalendarHandle {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its days, if there is such a calendar.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self) -> Result<Option<Calendar>> {
        get(&self.client, &self.name).await
    }

    /// Sets its days, each as [`Schedule::except`](windlass_core::schedule::Schedule::except) takes it: makes the calendar, or
    /// changes it and moves the next slots of all schedules that name it.
    ///
    /// # Errors
    /// When a day is none; the store's; and when a schedule has nothing left with these days. That one rests as before.
    pub async fn set<T: Into<String>>(&self, days: impl IntoIterator<Item = T>) -> Result<CalendarAnswer> {
        let calendar = Calendar::new(days)?;
        let set = match self.get().await? {
            None => ScheduleSet::Created,
            Some(before) if before == calendar => ScheduleSet::Unchanged,
            Some(_) => ScheduleSet::Changed,
        };
        if set != ScheduleSet::Unchanged {
            records(&self.client)?.put(&self.name, &calendar).await?;
        }
        // Also if it says the same: one that was setting it may have died on its way through the schedules.
        let (mut moved, mut failed) = (0, None);
        let mut days = DaysOf::new(&self.client);
        for view in named_by(&self.client, &self.name).await? {
            match days.bring_up_to_date(&view).await {
                Ok(is_moved) => moved += u64::from(is_moved),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(CalendarAnswer { set, moved }), Err)
    }

    /// Removes it. Answers whether there was one.
    ///
    /// # Errors
    /// When a schedule names it; the store's.
    pub async fn delete(&self) -> Result<bool> {
        if self.get().await?.is_none() {
            return Ok(false);
        }
        if let Some(view) = named_by(&self.client, &self.name).await?.first() {
            let why = format!("schedule {:?} rests on the days of {:?}: set it without", view.id, self.name);
            return Err(ScheduleInvalid::Field { field: "calendar", why }.into());
        }
        records(&self.client)?.remove(&self.name).await?;
        Ok(true)
    }
}

impl fmt::Debug for CalendarHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CalendarHandle").field("name", &self.name).finish_non_exhaustive()
    }
}

fn records(client: &Client) -> Result<Records> {
    client.records(QUEUE)
}

async fn get(client: &Client, name: &str) -> Result<Option<Calendar>> {
    check_calendar(name)?;
    Ok(records(client)?.get(name).await?.map(|calendar| calendar.value))
}

/// Schedules that name a calendar.
async fn named_by(client: &Client, name: &str) -> Result<Vec<ScheduleView>> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let (entries, next) = index::page(client, after.as_ref(), PAGE_MAX).await?;
        let views = index::views(client, &entries).await?.into_iter().map(|(view, _)| view);
        found.extend(views.filter(|view| view.record.schedule.calendars.iter().any(|of| of == name)));
        after = next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// The days of calendars, each of which is read once.
pub(crate) struct DaysOf {
    client: Client,
    read: BTreeMap<String, Option<Calendar>>,
}

impl DaysOf {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), read: BTreeMap::new() }
    }

    /// The days of all of these, in order and none twice; an error names one that is not there.
    async fn all(&mut self, names: &[String]) -> Result<Vec<String>> {
        let mut days = BTreeSet::new();
        for name in names {
            if !self.read.contains_key(name) {
                self.read.insert(name.clone(), get(&self.client, name).await?);
            }
            let Some(Some(calendar)) = self.read.get(name) else {
                let why = format!("there is no calendar {name:?}: set it first");
                return Err(ScheduleInvalid::Field { field: "calendar", why }.into());
            };
            days.extend(calendar.days.iter().cloned());
        }
        Ok(days.into_iter().collect())
    }

    /// Gives a schedule the days that its calendars have now. Answers whether it had others.
    pub(crate) async fn bring_up_to_date(&mut self, view: &ScheduleView) -> Result<bool> {
        let days = self.all(&view.record.schedule.calendars).await?;
        if days == view.record.days {
            return Ok(false);
        }
        write::rest_on(&self.client, view, &days).await
    }
}

/// The days of these calendars, which must be there.
pub(super) async fn days_of(client: &Client, names: &[String]) -> Result<Vec<String>> {
    DaysOf::new(client).all(names).await
}
