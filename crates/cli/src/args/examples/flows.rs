//! The tail of each `--help` of `flows`.

pub(in crate::args) const FLOWS: &str = "\
Examples:
  windlass flows list
  windlass flows show 01890a5d-ac96-774b-bcce-b302099a8057
  windlass flows cancel 01890a5d-ac96-774b-bcce-b302099a8057
  windlass flows retry 01890a5d-ac96-774b-bcce-b302099a8057";

pub(in crate::args) const LIST: &str = "\
Examples:
  windlass flows list
  windlass flows list --queue imports --ended
  windlass flows list --ended --json | jq -r '.flows[] | select(.state == \"failed\") | .id'

With --json: one document, {\"flows\": [...], \"next\": CURSOR or null}. state is running, cancelled, succeeded or failed.";

pub(in crate::args) const SHOW: &str = "\
Examples:
  windlass flows show 01890a5d-ac96-774b-bcce-b302099a8057
  windlass flows show 01890a5d-ac96-774b-bcce-b302099a8057 --queue imports
  windlass flows show 01890a5d-ac96-774b-bcce-b302099a8057 --json | jq '.nodes[] | select(.status == \"dead\")'

Marks:
  ✔ completed   ● open: ready, running or between two attempts   ○ waits for others
  ✘ dead        ▲ failed: did not run, because of one before it  ⊘ cancelled   – skipped

With --json: one document, the flow as list has it, and nodes; parents are places in nodes.
Exit code 4 if there is none.";

pub(in crate::args) const CANCEL: &str = "\
Examples:
  windlass flows cancel 01890a5d-ac96-774b-bcce-b302099a8057
  windlass flows cancel 01890a5d-ac96-774b-bcce-b302099a8057 --queue imports --json | jq .withdrawn

With --json: one document, the flow as list has it, with withdrawn (jobs that do not start) and stopping (jobs that were
asked to stop). Exit code 1 if it is over, 4 if there is none.";

pub(in crate::args) const RETRY: &str = "\
Examples:
  windlass flows retry 01890a5d-ac96-774b-bcce-b302099a8057
  windlass flows retry 01890a5d-ac96-774b-bcce-b302099a8057 --queue imports --json | jq .sent_back

With --json: one document, the flow as list has it, with sent_back (jobs that were dead or cancelled) and waiting_again (jobs
that did not run because of them). Exit code 1 if nothing of it has failed, 4 if there is none.";
