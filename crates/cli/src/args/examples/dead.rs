//! Examples of `dead`, `records` and `jobs wait`.

pub(in crate::args) const DEAD: &str = "\
Examples:
  windlass dead groups
  windlass dead list --queue mail --error 'timed out' --since 2h
  windlass dead replay --queue mail --rate 50 --stop-after 10
  windlass dead archive --to dead.jsonl.gz --before 30d --purge";

pub(in crate::args) const LIST: &str = "\
Examples:
  windlass dead list
  windlass dead list --queue mail --kind mail.send --error 'timed out' --since 2h
  windlass dead list --field order.id=42 --before 2026-11-18T09:00:00Z
  windlass dead list --fingerprint 9f86d081884c7d65 --json | jq -r '.jobs[].id'

With --json: one document, {\"jobs\": [...], \"looked\": N, \"next\": CURSOR or null}; each job has its
fingerprint and its cause.";

pub(in crate::args) const SHOW: &str = "\
Examples:
  windlass dead show 01890a5d-ac96-774b-bcce-b302099a8057

With --json: one line per job, as jobs show has it, with fingerprint, pattern, cause and edited.
Exit code 4 if one of them does not exist, 1 if one is not dead.";

pub(in crate::args) const GROUPS: &str = "\
Examples:
  windlass dead groups
  windlass dead groups --queue mail --since 1d
  windlass dead groups --json | jq -r '.groups[] | [.count, .fingerprint, .pattern] | @tsv'

With --json: one document, {\"groups\": [...], \"looked\": N, \"all\": whether these were all dead jobs,
\"others\": jobs of errors that were too many to keep apart}.";

pub(in crate::args) const SAMPLE: &str = "\
Examples:
  windlass dead sample
  windlass dead sample --fingerprint 9f86d081884c7d65 --count 3

With --json: one document, {\"jobs\": [...]}.";

pub(in crate::args) const REPLAY: &str = "\
Examples:
  windlass dead replay --queue mail                          counts them
  windlass dead replay --queue mail --expect 120             sends them back, if there are 120
  windlass dead replay --queue mail --rate 50 --stop-after 10 --expect 120
  windlass dead replay --queue mail --begun-at 2026-11-18T09:00:00Z --expect 70

With --json: one document, {\"matched\": N, \"began_at\": INSTANT, \"replayed\": N, \"left\": N,
\"died_again\": N, \"stopped\": BOOL, \"interrupted\": BOOL}.
Exit code 1 if another number was expected, some could not be sent back, or it stopped because too many died again;
130 if it was interrupted.";

pub(in crate::args) const EDIT: &str = "\
Examples:
  windlass dead edit 01890a5d-ac96-774b-bcce-b302099a8057 --payload fixed.json --why 'the address had a typo'
  jq '.to = \"ada@example.org\"' old.json | windlass dead edit 01890a5d-ac96-774b-bcce-b302099a8057 --payload - --why typo

With --json: one document, {\"id\": ID, \"new_id\": ID}.
Exit code 1 if it has not ended or was edited before, 4 if it does not exist.";

pub(in crate::args) const AGAIN: &str = "\
Examples:
  windlass dead again 01890a5d-ac96-774b-bcce-b302099a8057

With --json: one document, {\"id\": ID, \"new_id\": ID}.
Exit code 1 if it has not ended, 4 if it does not exist.";

pub(in crate::args) const ARCHIVE: &str = "\
Examples:
  windlass dead archive --to dead.jsonl.gz
  windlass dead archive --to dead-2026-11.jsonl.gz --before 30d --purge
  gzip -dc dead.jsonl.gz | jq -r .reason | sort | uniq -c

With --json: one document, {\"file\": FILE, \"written\": N, \"removed\": N, \"left\": N}.
Exit code 1 if some were not removed because they changed meanwhile, 130 if it was interrupted.";

pub(in crate::args) const IMPORT: &str = "\
Examples:
  windlass dead import dead.jsonl.gz

With --json: one document, {\"read\": N, \"stored\": N, \"known\": N, \"held\": N}; held are jobs whose unique key
another job has.";

pub(in crate::args) const PURGE: &str = "\
Examples:
  windlass dead purge --queue mail --before 30d               counts them
  windlass dead purge --queue mail --before 30d --expect 120  removes them, if there are 120

With --json: one document, {\"matched\": N, \"removed\": N, \"left\": N}.
Exit code 1 if another number was expected or some changed meanwhile.";

pub(in crate::args) const INDEX: &str = "\
Examples:
  windlass dead index mail
  windlass dead list --queue mail --fingerprint 9f86d081884c7d65
  windlass dead index mail --forget

With --json: one document, {\"queue\": QUEUE, \"indexed\": BOOL}.
Exit code 4 if there is none to forget.";

pub(in crate::args) const RULES: &str = "\
Examples:
  windlass dead rules list
  windlass dead rules set mail outages --error 'timed out' --after 10m --most 3
  windlass dead rules remove mail outages";

pub(in crate::args) const RULES_LIST: &str = "\
Examples:
  windlass dead rules list
  windlass dead rules list --json | jq -r '.rules[] | [.queue, .name] | @tsv'

With --json: one document, {\"rules\": [...]}, each with queue, name, kind, fingerprint, error, after_seconds and most.";

pub(in crate::args) const RULES_SET: &str = "\
Examples:
  windlass dead rules set mail outages --error 'timed out' --after 10m --most 3
  windlass dead rules set mail bad-gateway --kind mail.send --fingerprint 9f86d081884c7d65

With --json: one document, the rule as dead rules list has it.";

pub(in crate::args) const RULES_REMOVE: &str = "\
Examples:
  windlass dead rules remove mail outages

With --json: one document, {\"queue\": QUEUE, \"name\": NAME, \"removed\": true}.
Exit code 4 if there is none.";

pub(in crate::args) const RECORDS: &str = "\
Examples:
  windlass records list mail --prefix once/
  windlass records get mail cursor
  windlass records put mail cursor 17 --if-absent --ttl 1h
  windlass records remove mail cursor";

pub(in crate::args) const RECORDS_LIST: &str = "\
Examples:
  windlass records list mail
  windlass records list mail --prefix once/ --limit 1000 --json | jq -r '.records[].key'

With --json: one document, {\"records\": [...], \"next\": KEY or null, \"totals\": {\"count\": N, \"bytes\": N,
\"has_more\": whether there are more than were counted}}.";

pub(in crate::args) const RECORDS_GET: &str = "\
Examples:
  windlass records get mail cursor
  windlass records get mail cursor --json | jq .value

With --json: one document with key, version, value, value_encoding, written_at and expires_at.
Exit code 4 if there is none.";

pub(in crate::args) const RECORDS_PUT: &str = "\
Examples:
  windlass records put mail cursor 17
  windlass records put mail lock '{\"by\":\"ada\"}' --if-absent --ttl 1h
  windlass records put mail cursor 18 --if-version 9f86d081884c7d65
  windlass records put mail table @table.json

With --json: one document, {\"key\": KEY, \"version\": VERSION}.
Exit code 1 if the record is not as it was expected to be.";

pub(in crate::args) const RECORDS_REMOVE: &str = "\
Examples:
  windlass records remove mail cursor
  windlass records remove mail cursor --if-version 9f86d081884c7d65

With --json: one document, {\"key\": KEY, \"removed\": true}.
Exit code 1 if the record is not as it was expected to be, 4 if there is none.";

pub(in crate::args) const WAIT: &str = "\
Examples:
  windlass jobs wait 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs wait 01890a5d-ac96-774b-bcce-b302099a8057 --timeout 30s && echo completed

With --json: one document, the job as jobs show has it.
Exit code 0 if it completed, 1 if it died, 4 if it does not exist, 5 if it was cancelled, 6 if it has not ended in time.";
