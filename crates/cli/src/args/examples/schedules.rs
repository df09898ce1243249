//! The tail of each `--help` of `schedules`.

pub(in crate::args) const SCHEDULES: &str = "\
Examples:
  windlass schedules set nightly report.build --cron '0 3 * * *' --tz Europe/Madrid
  windlass schedules list
  windlass schedules show nightly
  windlass schedules preview --cron '30 2 * * *' --tz Europe/Madrid
  windlass schedules pause nightly";

pub(in crate::args) const LIST: &str = "\
Examples:
  windlass schedules list
  windlass schedules list --json | jq -r '.schedules[] | select(.paused) | .id'

With --json: one document, {\"schedules\": [...], \"next\": ID or null}.";

pub(in crate::args) const SHOW: &str = "\
Examples:
  windlass schedules show nightly
  windlass schedules show nightly --json | jq .next_at

With --json: one document with id, queue, kind, when, tz, paused, next_at, made, skipped, missed, definition and more.
Exit code 4 if there is none.";

pub(in crate::args) const SET: &str = "\
Examples:
  windlass schedules set nightly report.build --cron '0 3 * * *' --tz Europe/Madrid --overlap skip
  windlass schedules set sweep cache.sweep --every 15m --catch-up skip
  windlass schedules set digest mail.digest '{\"kind\":\"weekly\"}' --cron '0 9 * * MON' --spread 1h --queue mail
  windlass schedules set closing shop.close --cron '0 20 * * *' --except sun --except 12-25
  windlass schedules set launch mail.send @launch.json --at 2030-01-01T00:00:00Z

With --json: one document, the schedule as show has it, and set: created, changed or unchanged.
Exit code 2 if it makes no sense; the error names the field.";

pub(in crate::args) const PREVIEW: &str = "\
Examples:
  windlass schedules preview nightly
  windlass schedules preview --cron '30 2 * * *' --tz Europe/Madrid --after 2026-03-27T00:00:00Z -n 5

With --json: one document, {\"slots\": [{\"at\": INSTANT, \"local\": TEXT}, ...]}.";

pub(in crate::args) const SIMULATE: &str = "\
Examples:
  windlass schedules simulate nightly --for 30d --takes 2h
  windlass schedules simulate --cron '0 * * * *' --tz Europe/Madrid --begin 2026-10-25T00:00:00Z --for 6h
  windlass schedules simulate --every 1h --overlap skip --takes 90m --begin 2026-01-01T00:00:00Z --for 12h \\
    --down 2026-01-01T03:30:00Z --down-for 2h

With --json: one document, {\"slots\": [{\"at\", \"local\", \"outcome\", \"starts_at\", \"clock_change_seconds\"}, ...]};
outcome is starts, made_up, missed or skipped.";

pub(in crate::args) const PAUSE: &str = "\
Examples:
  windlass schedules pause nightly

With --json: one document, the schedule as show has it. Exit code 4 if there is none.";

pub(in crate::args) const RESUME: &str = "\
Examples:
  windlass schedules resume nightly

With --json: one document, the schedule as show has it. Exit code 4 if there is none.";

pub(in crate::args) const RUN: &str = "\
Examples:
  windlass schedules run nightly
  windlass jobs wait $(windlass schedules run nightly --json | jq -r .job)

With --json: one document, {\"id\": ID, \"job\": UUID}. Exit code 4 if there is none.";

pub(in crate::args) const DELETE: &str = "\
Examples:
  windlass schedules delete nightly

With --json: one document, {\"id\": ID, \"deleted\": true}. Exit code 4 if there is none.";
