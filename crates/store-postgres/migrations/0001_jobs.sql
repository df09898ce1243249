-- Jobs, where each of them stands, the records of attempts that did not complete, leases of workers, and queues
-- with their counters. All instants are microseconds since 1970 by the server's clock, all spans are
-- microseconds. Names are compared by their bytes.

-- The time by which everything is decided. A function, so that one place says what the store's clock is.
CREATE FUNCTION clock_micros() RETURNS int8
LANGUAGE sql VOLATILE PARALLEL SAFE
AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8';

-- An instant moved forward by a span; stays at the end of time instead of overflowing.
CREATE FUNCTION later(instant int8, span int8) RETURNS int8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS 'SELECT CASE WHEN span > 9223372036854775807 - instant THEN 9223372036854775807 ELSE instant + span END';

-- What was handed in. Written once and not touched again until the job is removed, so that the indexes by
-- which it is found are written once as well. Where the job stands is the row that one of waiting, running
-- and ended has under the same number.
CREATE TABLE jobs (
    seq         int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order in which jobs were accepted
    id          uuid NOT NULL UNIQUE,             -- made by the caller
    enqueued_at int8 NOT NULL,
    due_at      int8 NOT NULL,                    -- as it was accepted
    expires_at  int8,                             -- dead unless started before
    timeout     int8,
    stalls_max  int8,                             -- NULL: the library's default
    priority    int2 NOT NULL,                    -- higher first
    queue       text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    retry       text,                             -- JSON; NULL: the library's default policy
    tags        text COLLATE "C",                 -- separated by commas; NULL: none
    payload     bytea NOT NULL
);

-- Jobs that wait. They are deleted when they are claimed, so the indexes hold what waits and nothing else.
CREATE TABLE waiting (
    seq        int8 PRIMARY KEY,
    due_at     int8 NOT NULL,
    expires_at int8,
    fence      int8 NOT NULL,                     -- how often it was claimed; never falls
    backoff    int8 NOT NULL,                     -- the delay before the newest attempt
    attempt    int8 NOT NULL,                     -- attempts used
    stalls     int8 NOT NULL,
    ambiguous  int8 NOT NULL,
    size       int4 NOT NULL,                     -- of the payload, in bytes
    state      int2 NOT NULL,                     -- 0 blocked 1 scheduled 2 ready
    priority   int2 NOT NULL,
    queue      text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    progress   bytea
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);

CREATE INDEX waiting_ready ON waiting (queue, kind, priority DESC, due_at, seq) WHERE state = 2;
CREATE INDEX waiting_scheduled ON waiting (queue, due_at, seq) WHERE state = 1;
CREATE INDEX waiting_expiring ON waiting (queue, expires_at, seq) WHERE attempt = 0 AND expires_at IS NOT NULL;
-- Of all queues together. By an expression, so that no statement about one queue is planned with them.
CREATE INDEX waiting_due ON waiting ((due_at + 0), seq) WHERE state = 1;
CREATE INDEX waiting_expiry ON waiting ((expires_at + 0), seq) WHERE attempt = 0 AND expires_at IS NOT NULL;

-- Jobs in the hands of workers.
CREATE TABLE running (
    seq        int8 PRIMARY KEY,
    lease      int8 NOT NULL,                     -- leases.key
    nonce      int8 NOT NULL,                     -- of the claim
    fence      int8 NOT NULL,
    claimed_at int8 NOT NULL,
    due_at     int8 NOT NULL,
    backoff    int8 NOT NULL,
    attempt    int8 NOT NULL,                     -- attempts used, this one included
    stalls     int8 NOT NULL,
    ambiguous  int8 NOT NULL,
    cancel     bool NOT NULL,                     -- somebody asked the attempt to stop
    worker     text NOT NULL,                     -- label; outlives the lease
    progress   bytea
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);

CREATE INDEX running_lease ON running (lease);
CREATE INDEX running_stopping ON running (lease) WHERE cancel;

-- Jobs that came to their end.
CREATE TABLE ended (
    seq         int8 PRIMARY KEY,
    finished_at int8 NOT NULL,
    due_at      int8 NOT NULL,
    fence       int8 NOT NULL,
    backoff     int8 NOT NULL,
    claimed_at  int8,
    attempt     int8 NOT NULL,
    stalls      int8 NOT NULL,
    ambiguous   int8 NOT NULL,
    state       int2 NOT NULL,                    -- 4 completed 5 dead 6 cancelled
    queue       text COLLATE "C" NOT NULL,
    worker      text,
    reason      text,                             -- why it is dead or cancelled
    output      bytea,
    progress    bytea
);

CREATE INDEX ended_oldest ON ended (queue, state, finished_at, seq);
CREATE INDEX ended_failed ON ended (state, seq) WHERE state >= 5;

CREATE TABLE attempts (
    seq        int8 NOT NULL,
    fence      int8 NOT NULL,
    number     int8 NOT NULL,
    started_at int8 NOT NULL,
    ended_at   int8 NOT NULL,
    worker     text NOT NULL,
    ending     text NOT NULL,
    error      text,
    PRIMARY KEY (seq, fence)
);

CREATE TABLE leases (
    key        int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         uuid NOT NULL UNIQUE,
    opened_at  int8 NOT NULL,
    expires_at int8 NOT NULL,
    worker     text NOT NULL,
    queues     text NOT NULL                      -- separated by commas
) WITH (fillfactor = 50);

-- Definitions of queues. A queue that nobody defined has no row.
CREATE TABLE queues (
    name   text COLLATE "C" PRIMARY KEY,
    config text NOT NULL,                         -- JSON
    payload_max int8 NOT NULL                     -- what it says about payloads, for enqueue()
);

-- How many jobs a queue holds: the sum of its rows here. Every call that moves jobs adds what it moved as a row
-- of its own, so that no two of them wait for each other; maintenance folds them into one row per queue.
CREATE TABLE counts (
    folded    bool NOT NULL DEFAULT false,
    blocked   int8 NOT NULL DEFAULT 0,
    scheduled int8 NOT NULL DEFAULT 0,
    ready     int8 NOT NULL DEFAULT 0,
    running   int8 NOT NULL DEFAULT 0,
    completed int8 NOT NULL DEFAULT 0,
    dead      int8 NOT NULL DEFAULT 0,
    cancelled int8 NOT NULL DEFAULT 0,
    queue     text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1
);

CREATE TABLE settings (
    name  text PRIMARY KEY,
    value int8 NOT NULL
);

-- Rises with every change of a definition: clients keep definitions and say which version they know.
INSERT INTO settings (name, value) VALUES ('definitions', 1);

-- Tells this store from every other, also from one of the same name in another database.
INSERT INTO settings (name, value) VALUES ('identity', (random() * 9007199254740991)::int8);
