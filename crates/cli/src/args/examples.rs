//! The tail of each `--help`: examples that work as they stand, and the exit codes.

pub(super) mod calendars;
pub(super) mod dead;
pub(super) mod flows;
pub(super) mod schedules;
pub(super) mod server;

pub(super) const ROOT: &str = "\
Examples:
  windlass demo
  windlass enqueue mail.send '{\"to\":\"ada@example.org\"}'
  windlass jobs list --state dead
  windlass explain 01890a5d-ac96-774b-bcce-b302099a8057
  windlass doctor
  WINDLASS_STORE=sqlite:///var/lib/shop/jobs.db windlass queues --json
  WINDLASS_STORE=postgres://app:secret@db.example/shop windlass workers

Stores:
  sqlite://FILE   an embedded file; relative to the current folder, sqlite:///FILE is absolute
  postgres://USER:PASSWORD@HOST:PORT/DATABASE
                  tables in the schema windlass, or in that of ?schema=NAME; put a URL with a
                  password into WINDLASS_STORE, since everyone on the machine can see arguments
  redis://USER:PASSWORD@HOST:PORT/NUMBER, redis+unix:///SOCKET,
  redis-cluster://HOST:PORT,HOST:PORT, redis-sentinel://HOST:PORT,HOST:PORT/PRIMARY
                  keys that begin with wl:{windlass, or with that of ?namespace=NAME; with TLS
                  rediss://, rediss-cluster:// and rediss-sentinel://
  memory:         nothing is kept when the command ends

Exit codes:
  0    done
  1    it failed, or some job was refused
  2    the command line or the payload makes no sense, and nothing was touched; doctor: problems
  3    the store is missing, unreachable, or newer than this program
  4    no such job, record, schedule, calendar or flow
  5    the job that was waited for was cancelled
  6    the job that was waited for has not ended in time
  130  interrupted

Colours appear on a terminal only, and never with NO_COLOR set.";

pub(super) const DEMO: &str = "\
Examples:
  windlass demo
  windlass demo --jobs 2000
  windlass demo --store postgres://app@localhost/shop
  windlass demo --store redis://localhost?namespace=trial
  windlass demo --keep            keeps the file, to look at with jobs list and jobs show
  windlass demo --json            the summary as one JSON document

Exit code 1 means that a job was lost or ended otherwise than its kind says.";

pub(super) const ENQUEUE: &str = "\
Examples:
  windlass enqueue mail.send '{\"to\":\"ada@example.org\"}'
  windlass enqueue report.build @report.json --queue reports --priority 10 --tag monthly
  echo '{\"n\":1}' | windlass enqueue count -
  windlass enqueue ping --delay 300ms --attempts 3 --backoff fixed:10s --timeout 30s
  windlass enqueue ping --at 2030-01-01T00:00:00Z
  windlass enqueue alert.push --expires-in 10m
  windlass enqueue ping --id 01890a5d-ac96-774b-bcce-b302099a8057
  windlass enqueue import --raw @rows.csv
  windlass enqueue report.build --unique 2026-11 --unique-until 1h
  windlass enqueue index.refresh --unique index --delay 2s --debounce 1m
  windlass enqueue export.build --queue exports --key acme
  windlass enqueue ping --count 10000

With --json: one line per job, with id, new, state, queue, kind and durability; for a job that was not stored since
another one has its unique key, the id and state of that one, and duplicate: kept or replaced.";

pub(super) const JOBS: &str = "\
Examples:
  windlass jobs list --queue mail --state dead
  windlass jobs show 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs retry 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs retry --queue mail --state dead";

pub(super) const LIST: &str = "\
Examples:
  windlass jobs list
  windlass jobs list --queue mail --kind mail.send --state dead --tag monthly
  windlass jobs list --state running
  windlass jobs list --worker web-3
  windlass jobs list --limit 1000 --json | jq -r '.jobs[].id'

With --json: one document, {\"jobs\": [...], \"next\": CURSOR or null}.";

pub(super) const SHOW: &str = "\
Examples:
  windlass jobs show 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs show --json 01890a5d-ac96-774b-bcce-b302099a8057 | jq .payload

With --json: one line per job. Exit code 4 if one of them does not exist.";

pub(super) const CANCEL: &str = "\
Examples:
  windlass jobs cancel 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs cancel 01890a5d-ac96-774b-bcce-b302099a8057 --why 'wrong customer'
  windlass jobs cancel --kind mail.send --tag monthly               counts them
  windlass jobs cancel --kind mail.send --tag monthly --expect 120  cancels them, if there are 120

With --json: one line per id, with id, answer (done, refused or missing) and state; by filter
one document, {\"matched\": N, \"changed\": N, \"refused\": N}.
Exit code 1 if one was refused or another number was expected, otherwise 4 if one does not exist.";

pub(super) const RETRY: &str = "\
Examples:
  windlass jobs retry 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs retry --queue mail --state dead               counts them
  windlass jobs retry --queue mail --state dead --expect 120  sends them to ready, if there are 120

With --json: one line per id, with id, answer (done, refused or missing) and state; by filter
one document, {\"matched\": N, \"changed\": N, \"refused\": N}.
Exit code 1 if one was refused or another number was expected, otherwise 4 if one does not exist.";

pub(super) const DELETE: &str = "\
Examples:
  windlass jobs delete 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs delete --yes 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs delete --kind import --state cancelled               counts them
  windlass jobs delete --kind import --state cancelled --expect 120  removes them, if there are 120

With --json: one line per id, with id, answer (done, refused or missing) and state; by filter
one document, {\"matched\": N, \"changed\": N, \"refused\": N}.
Exit code 1 if one was refused or another number was expected, otherwise 4 if one does not exist.";

pub(super) const MOVE: &str = "\
Examples:
  windlass jobs move --to mail.slow 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs move --to mail.slow --queue mail --kind newsletter               counts them
  windlass jobs move --to mail.slow --queue mail --kind newsletter --expect 120  moves them, if there are 120

With --json: one line per id, with id, answer (done, refused or missing), state and moved_to; by filter
one document, {\"matched\": N, \"changed\": N, \"refused\": N}.
Exit code 1 if one was refused or another number was expected, otherwise 4 if one does not exist.";

pub(super) const EXPLAIN: &str = "\
Examples:
  windlass explain 01890a5d-ac96-774b-bcce-b302099a8057
  windlass explain --json 01890a5d-ac96-774b-bcce-b302099a8057 | jq -r '.causes[].remedy'

With --json: one line per job, {\"id\", \"queue\", \"kind\", \"state\", \"now\", \"causes\": [{\"cause\": WORD, \"sentence\", \"remedy\", ...}]}.
Exit code 4 if one of them does not exist.";

pub(super) const DOCTOR: &str = "\
Examples:
  windlass doctor
  windlass doctor --strict || echo 'look at it'
  windlass doctor --deep
  windlass doctor --json | jq -r '.findings[] | select(.level != \"ok\") | .what'

With --json: one document, {\"problems\": N, \"warnings\": N, \"findings\": [{\"subject\", \"level\", \"what\", \"remedy\"}]}.
Exit code 0 if there is no problem, 1 for warnings with --strict, 2 for problems, 3 if the store cannot be opened.";

pub(super) const TOP: &str = "\
Examples:
  windlass top
  windlass top --filter mail --interval 5s
  windlass top --once
  windlass top --once --json | jq -r '.verdict.level'
  windlass top --server https://jobs.example --token-file ops.token

With --json and --once: {\"at\", \"verdict\": {\"level\", \"reasons\"}, \"queues\", \"workers\", \"failures\", \"jobs\"}.
Level is ok, warning or problem; the exit code is 0 for each of them (see windlass doctor for one that tells them apart).";

pub(super) const QUEUES: &str = "\
Examples:
  windlass queues
  windlass queues --json | jq -r '.queues[] | select(.counts.dead > 0) | .name'
  windlass queues show mail
  windlass queues pause mail --why 'the mail server is ill'
  windlass queues set mail --concurrency 20 --rate 500/1m
  windlass queues define mail --keep-completed 1d --keep-dead forever
  windlass queues remove mail.old

With --json: one document, {\"queues\": [...]}.";

pub(super) const DEFINE: &str = "\
Examples:
  windlass queues define mail --keep-completed 1d --keep-completed-count 100000
  windlass queues define uploads --payload-cap 4MiB
  windlass queues set mail --rate 500/1m --concurrency 20
  windlass queues set api --rate 100/1s --rate-shape bucket:10
  windlass queues set mail --rate none --concurrency none
  windlass queues set mail --per-key-concurrency 1 --per-key-rate 10/1s --weight acme=3
  windlass queues set imports --capacity 10000
  windlass queues set mail --aging 10s
  windlass queues set reports --default-timeout 5m --default-attempts 3
  windlass queues define mail --reset";

pub(super) const SHOW_QUEUE: &str = "\
Examples:
  windlass queues show mail
  windlass queues show mail --json

Exit code 2 if there is no such queue.";

pub(super) const STATS: &str = "\
Examples:
  windlass queues stats
  windlass queues stats mail --since 24h
  windlass queues stats mail --since 7d --step 1h --json

With --json: one document, {\"from\": .., \"until\": .., \"rows\": [...]}, a row per queue, kind and step in which something
happened.";

pub(super) const PAUSE: &str = "\
Examples:
  windlass queues pause mail --why 'the mail server is ill'
  windlass queues pause mail --for 30m
  windlass queues pause mail --kind newsletter.send
  windlass queues pause mail --key acme";

pub(super) const RESUME: &str = "\
Examples:
  windlass queues resume mail
  windlass queues resume mail --kind newsletter.send
  windlass queues resume mail --key acme

Exit code 1 if it was not paused.";

pub(super) const REMOVE: &str = "\
Examples:
  windlass queues remove mail.old
  windlass jobs delete --queue mail.old --expect 120 && windlass queues remove mail.old

With --json: one document, {\"name\": NAME, \"removed\": whether it was, \"counts\": {STATE: N, ...}}.
Exit code 1 if it holds jobs, 2 if there is no such queue.";

pub(super) const WORKERS: &str = "\
Examples:
  windlass workers
  windlass workers --json | jq '.workers[] | select(.lost)'

With --json: one document, {\"workers\": [...]}.";

pub(super) const PRUNE: &str = "\
Examples:
  windlass prune
  windlass prune --once --limit 100

With --json: one document, {\"removed\": N, \"done\": whether nothing is left}.";

pub(super) const MIGRATE: &str = "\
Examples:
  windlass migrate --dry-run
  windlass migrate
  windlass migrate --store postgres://app@localhost/shop
  windlass migrate --store postgres://app@localhost/shop --dry-run | psql -v ON_ERROR_STOP=1 shop

With --json: one document, {\"pending\": [...]}; functions of PostgreSQL have no version.
Redis has no schema and nothing to migrate.";

pub(super) const BENCH: &str = "\
Examples:
  windlass bench
  windlass bench --jobs 50000 --producers 256
  windlass bench --store sqlite:///mnt/fast/bench.db --yes
  windlass bench --store postgres://app@localhost/shop?schema=bench --yes

With --json: one document, {\"measurements\": [...]}.";

pub(super) const COMPLETIONS: &str = "\
Examples:
  windlass completions bash > ~/.local/share/bash-completion/completions/windlass
  windlass completions zsh > ~/.zfunc/_windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish";

pub(super) const LOGS: &str = "\
Examples:
  windlass jobs logs 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs logs 01890a5d-ac96-774b-bcce-b302099a8057 --attempt 2
  windlass jobs logs 01890a5d-ac96-774b-bcce-b302099a8057 --queue mail    when the job is no longer there

With --json: one document per line of the log.
Exit code 4 if there is no such job and no queue is named.";

pub(super) const TAIL: &str = "\
Examples:
  windlass jobs tail 01890a5d-ac96-774b-bcce-b302099a8057
  windlass jobs tail 01890a5d-ac96-774b-bcce-b302099a8057 --timeout 10m && echo completed

With --json: one document per event.
Exit code 0 if it completed, 1 if it died, 4 if it does not exist, 5 if it was cancelled, 6 if it has not ended in time.";
