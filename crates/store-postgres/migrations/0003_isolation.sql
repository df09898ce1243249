-- What keeps one lost answer, one row that cannot be read and one crash from harming other jobs.

-- Rows say in which form they are written. A program that knows an older one only leaves such a job to others.
ALTER TABLE jobs ADD COLUMN form int2 NOT NULL DEFAULT 1;

-- Whether the handler has begun. A job that was only taken has not, and nothing is held against it when its worker is
-- lost. Programs that do not say so begin at once.
ALTER TABLE running ADD COLUMN begun bool NOT NULL DEFAULT true;

-- The nonce of the attempt that a reaper has taken back, until the job is claimed again: for the outcome of that attempt,
-- should it come late.
ALTER TABLE waiting ADD COLUMN nonce int8;

-- An attempt that was taken back and ends after all has two records.
ALTER TABLE attempts ADD COLUMN late bool NOT NULL DEFAULT false;
ALTER TABLE attempts DROP CONSTRAINT attempts_pkey;
ALTER TABLE attempts ADD CONSTRAINT attempts_pkey PRIMARY KEY (seq, fence, late);

-- Calls that were accepted, for as long as one of them may be repeated because its answer was lost.
CREATE TABLE calls (
    id          uuid PRIMARY KEY,
    accepted_at int8 NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);

CREATE INDEX calls_oldest ON calls (accepted_at);

-- As records, which the functions of programs before this step read.
CREATE VIEW job_records (
    seq, id, queue, kind, state, priority, due_at, enqueued_at, fence, attempt, stalls, ambiguous, backoff, cancel,
    claimed_at, worker, finished_at, reason, expires_at, retry, timeout, stalls_max, tags, progress, output, payload,
    begun, form
) AS
SELECT
    j.seq, j.id, j.queue::text, j.kind::text,
    coalesce(w.state, CASE WHEN r.seq IS NOT NULL THEN 3 END, e.state)::int8, j.priority,
    coalesce(w.due_at, r.due_at, e.due_at), j.enqueued_at, coalesce(w.fence, r.fence, e.fence),
    coalesce(w.attempt, r.attempt, e.attempt), coalesce(w.stalls, r.stalls, e.stalls),
    coalesce(w.ambiguous, r.ambiguous, e.ambiguous), coalesce(w.backoff, r.backoff, e.backoff),
    coalesce(r.cancel, false), coalesce(r.claimed_at, e.claimed_at), coalesce(r.worker, e.worker), e.finished_at, e.reason,
    j.expires_at, j.retry, j.timeout, j.stalls_max, j.tags::text, coalesce(w.progress, r.progress, e.progress), e.output,
    j.payload, coalesce(r.begun, false), j.form::int8
FROM jobs AS j
LEFT JOIN waiting AS w ON w.seq = ANY (ARRAY[j.seq])
LEFT JOIN running AS r ON r.seq = ANY (ARRAY[j.seq])
LEFT JOIN ended AS e ON e.seq = ANY (ARRAY[j.seq]);
