-- Jobs, the records of attempts that did not complete, leases of workers, and queues with their counters.
-- All instants are microseconds since 1970 by the store's clock, all spans are microseconds.

CREATE TABLE windlass_jobs (
    seq         INTEGER PRIMARY KEY,          -- the order in which jobs were accepted
    id          BLOB    NOT NULL,             -- 16 bytes, made by the caller
    queue       TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    state       INTEGER NOT NULL,             -- 0 blocked 1 scheduled 2 ready 3 running 4 completed 5 dead 6 cancelled
    priority    INTEGER NOT NULL,             -- higher first
    due_at      INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    fence       INTEGER NOT NULL,             -- how often it was claimed; never falls
    attempt     INTEGER NOT NULL,             -- attempts used, the running one included
    stalls      INTEGER NOT NULL,
    ambiguous   INTEGER NOT NULL,
    cancel      INTEGER NOT NULL,             -- 1: somebody asked the running attempt to stop
    backoff     INTEGER NOT NULL,             -- the delay before the newest attempt
    form        INTEGER NOT NULL DEFAULT 1,   -- rows of a larger form than a program knows are left to a newer one
    mark        INTEGER NOT NULL DEFAULT 0,   -- of the newest claim: 0 handed out, 1 its handler has begun, 2 reaped
    nonce       INTEGER,                      -- of the newest claim; lease and cancel count only while running
    claimed_at  INTEGER,
    lease       INTEGER,                      -- windlass_leases.key
    worker      TEXT,                         -- label; outlives the lease
    finished_at INTEGER,
    reason      TEXT,                         -- why it is dead or cancelled
    expires_at  INTEGER,                      -- dead unless started before
    spec        TEXT,                         -- options that nothing here is decided by; NULL: all have their default
    tags        TEXT,                         -- JSON array
    progress    BLOB,
    output      BLOB,
    payload     BLOB                          -- NULL: too long for the row, see windlass_payloads
) STRICT;

-- Long payloads live apart, so that the updates of a job's life do not write them again.
CREATE TABLE windlass_payloads (
    seq     INTEGER PRIMARY KEY,
    payload BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX windlass_jobs_id ON windlass_jobs (id);
-- Each of these holds only the jobs of its states, so the cost of a claim does not grow with the others.
-- A later form of rows gets an index of its own: the claims of a program never walk rows that it leaves to newer ones.
CREATE INDEX windlass_jobs_ready ON windlass_jobs (queue, kind, priority DESC, due_at) WHERE state = 2 AND form = 1;
CREATE INDEX windlass_jobs_scheduled ON windlass_jobs (queue, due_at) WHERE state = 1;
CREATE INDEX windlass_jobs_expiry ON windlass_jobs (queue, expires_at)
WHERE state < 3 AND attempt = 0 AND expires_at IS NOT NULL;
CREATE INDEX windlass_jobs_running ON windlass_jobs (lease) WHERE state = 3;
CREATE INDEX windlass_jobs_stopping ON windlass_jobs (lease) WHERE state = 3 AND cancel = 1;
CREATE INDEX windlass_jobs_finished ON windlass_jobs (queue, state, finished_at) WHERE state >= 4;
CREATE INDEX windlass_jobs_failed ON windlass_jobs (state) WHERE state >= 5;

CREATE TABLE windlass_attempts (
    seq        INTEGER NOT NULL,
    fence      INTEGER NOT NULL,
    late       INTEGER NOT NULL DEFAULT 0,        -- 1: what the attempt said after a reaper had taken its job back
    number     INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    ending     TEXT    NOT NULL,
    error      TEXT,
    PRIMARY KEY (seq, fence, late)
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_leases (
    key        INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice: a finished job may still name it
    id         BLOB    NOT NULL UNIQUE,
    worker     TEXT    NOT NULL,
    serves     TEXT    NOT NULL,                  -- queues and kinds, for people
    opened_at  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ttl        INTEGER                            -- how long a renewal lasts
) STRICT;

CREATE INDEX windlass_leases_expiry ON windlass_leases (expires_at);

CREATE TABLE windlass_queues (
    name      TEXT PRIMARY KEY,
    config    TEXT,                               -- JSON; NULL: nobody defined it
    blocked   INTEGER NOT NULL DEFAULT 0,
    scheduled INTEGER NOT NULL DEFAULT 0,
    ready     INTEGER NOT NULL DEFAULT 0,
    running   INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    dead      INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Calls that were accepted: a row for each transaction that brought some. Periods are counted, not computed from the
-- clock, so a clock that is set forward forgets nothing. The newest row is never deleted.
CREATE TABLE windlass_calls (
    seq    INTEGER PRIMARY KEY,
    period INTEGER NOT NULL,
    since  INTEGER NOT NULL,                      -- when the period began
    ids    BLOB    NOT NULL                       -- 16 bytes each, made by the callers
) STRICT;
