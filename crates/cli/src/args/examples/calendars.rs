//! The tail of each `--help` of `calendars`.

pub(in crate::args) const CALENDARS: &str = "\
Examples:
  windlass calendars set spain 01-01 10-12 12-25 2026-04-03
  windlass schedules set closing shop.close --cron '0 20 * * *' --tz Europe/Madrid --calendar spain
  windlass calendars show spain";

pub(in crate::args) const LIST: &str = "\
Examples:
  windlass calendars list
  windlass calendars list --json | jq -r '.calendars[].name'

With --json: one document, {\"calendars\": [{\"name\", \"days\"}, ...], \"next\": NAME or null}.";

pub(in crate::args) const SHOW: &str = "\
Examples:
  windlass calendars show spain
  windlass calendars show spain --json | jq -r '.days[]'

With --json: one document, {\"name\": NAME, \"days\": [DAY, ...]}. Exit code 4 if there is none.";

pub(in crate::args) const SET: &str = "\
Examples:
  windlass calendars set spain 01-01 10-12 12-25 2026-04-03
  windlass calendars set works sat sun 2026-12-24..2027-01-06
  windlass calendars set spain $(cat holidays.txt)

With --json: one document, {\"name\", \"days\", \"set\": created, changed or unchanged, \"moved\": COUNT}.
Exit code 2 if one of them is not a day.";

pub(in crate::args) const DELETE: &str = "\
Examples:
  windlass calendars delete spain

With --json: one document, {\"name\": NAME, \"deleted\": true}. Exit code 4 if there is none, 2 if a schedule names it.";
