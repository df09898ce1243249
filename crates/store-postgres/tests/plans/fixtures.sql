-- Two workers, one of them gone, with ten jobs each; and a queue whose jobs are due or have expired.
SET search_path = windlass;

INSERT INTO leases (id, opened_at, expires_at, worker, serves) VALUES
    ('{LEASE}', 1, 9223372036854775807, 'w', 'late,q'),
    ('{LOST}', 1, 2, 'w', 'late,q');

WITH job AS (
    INSERT INTO jobs (id, enqueued_at, due_at, expires_at, priority, queue, kind, payload)
    SELECT
        (CASE WHEN i <= 10 THEN '00000000-0000-7000-8000-000000000a' ELSE '00000000-0000-7000-8000-000000000b' END
            || lpad(to_hex((i - 1) % 10 + 1), 2, '0'))::uuid,
        1, 1, NULL, 0, 'q', 'k0', '\x00'
    FROM generate_series(1, 20) AS i
    RETURNING seq, id
)
INSERT INTO running (seq, lease, nonce, fence, claimed_at, due_at, backoff, attempt, stalls, ambiguous, cancel, worker)
SELECT
    j.seq, (SELECT key FROM leases WHERE id = CASE WHEN j.id < '00000000-0000-7000-8000-000000000b00' THEN '{LEASE}'::uuid ELSE '{LOST}'::uuid END),
    1, 1, 1, 1, 0, 1, 0, 0, j.id = '00000000-0000-7000-8000-000000000a01', 'w'
FROM job AS j;

WITH job AS (
    INSERT INTO jobs (id, enqueued_at, due_at, expires_at, priority, queue, kind, payload)
    SELECT gen_random_uuid(), 1, i, CASE WHEN i <= 10 THEN 2 END, 0, 'late', 'k0', ''
    FROM generate_series(1, 20) AS i
    RETURNING seq, due_at, expires_at
)
INSERT INTO waiting (
    seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind
)
SELECT j.seq, j.due_at, j.expires_at, 0, 0, 0, 0, 0, 0, CASE WHEN j.due_at <= 10 THEN 2 ELSE 1 END, 0, 'late', 'k0'
FROM job AS j;

-- Ten that a reaper has put back.
WITH job AS (
    INSERT INTO jobs (id, enqueued_at, due_at, priority, queue, kind, payload)
    SELECT ('00000000-0000-7000-8000-000000000d' || lpad(to_hex(i), 2, '0'))::uuid, 1, 1, 0, 'q', 'k9', '\x00'
    FROM generate_series(1, 10) AS i
    RETURNING seq
), entry AS (
    INSERT INTO waiting (
        seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind, nonce
    )
    SELECT j.seq, 1, 1, 0, 1, 1, 0, 1, 2, 0, 'q', 'k9', 1 FROM job AS j
)
INSERT INTO attempts (seq, fence, number, started_at, ended_at, worker, ending)
SELECT j.seq, 1, 1, 1, 1, 'w', 'stalled' FROM job AS j;

INSERT INTO calls (id, accepted_at) SELECT gen_random_uuid(), i FROM generate_series(1, 20) AS i;

-- Keys of three jobs that run and of one that waits, and some whose time is over.
UPDATE jobs SET unique_key = id, unique_lifetime = 'end'
WHERE id = ANY (ARRAY(SELECT ('00000000-0000-7000-8000-000000000a0' || i)::uuid FROM generate_series(1, 3) AS i))
    OR id = '00000000-0000-7000-8000-000000000d01';
INSERT INTO keys (queue, digest, seq, id, free_at, at_start)
SELECT queue, unique_key, seq, id, NULL, false FROM jobs WHERE unique_key IS NOT NULL;
INSERT INTO keys (queue, digest, seq, id, free_at, at_start)
SELECT 'q', gen_random_uuid(), 0, gen_random_uuid(), i, false FROM generate_series(1, 20) AS i;

-- Queues with rules, in which jobs wait and run: one whose running jobs can be counted in running, one in which that begins, and
-- one in which it has begun long ago.
INSERT INTO queues (name, config, payload_max, rules, counted_from)
SELECT
    q.name, '{"concurrency":1000,"rate":{"jobs":1000,"per":60000000,"shape":"sliding"},"pauses":{"kinds":{"k9":{}}}}', 1048576,
    1, q.counted_from
FROM (VALUES ('limited', 0), ('limited-anew', NULL), ('limited-since', 1)) AS q (name, counted_from);

UPDATE settings SET value = 1 WHERE name = 'rules';

WITH job AS (
    INSERT INTO jobs (id, enqueued_at, due_at, priority, queue, kind, payload)
    SELECT gen_random_uuid(), 1, 1, 0, q.name, 'k' || i % 3, ''
    FROM queues AS q
    CROSS JOIN generate_series(1, 20) AS i
    RETURNING seq, queue, kind
)
INSERT INTO waiting (seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind)
SELECT j.seq, 1, 0, 0, 0, 0, 0, 0, 2, 0, j.queue, j.kind
FROM job AS j;

WITH job AS (
    INSERT INTO jobs (id, enqueued_at, due_at, priority, queue, kind, payload)
    SELECT gen_random_uuid(), 1, 1, 0, q.name, 'k0', ''
    FROM queues AS q
    CROSS JOIN generate_series(1, 5) AS i
    RETURNING seq, queue
)
INSERT INTO running (seq, lease, nonce, fence, claimed_at, due_at, backoff, attempt, stalls, ambiguous, cancel, worker, queue)
SELECT
    j.seq, (SELECT key FROM leases WHERE id = '{LEASE}'::uuid), 2, 1, 1, 1, 0, 1, 0, 0, false, 'w',
    CASE WHEN j.queue = 'limited' THEN j.queue END
FROM job AS j;

INSERT INTO spent (queue, back_at, jobs)
SELECT q.name, CASE WHEN i <= 10 THEN i ELSE clock_micros() + 86400000000 + i END, 1
FROM queues AS q
CROSS JOIN generate_series(1, 20) AS i;

-- A queue with keys: each has jobs that wait and one that runs, and permits that were spent. Some gates are closed.
INSERT INTO queues (name, config, payload_max, rules, keys_counted, capacity)
VALUES (
    'keyed',
    '{"capacity":1000000000,"pauses":{"keys":{"a9":{}}},"keys":{"concurrency":3,"rate":{"jobs":9,"per":60000000,"shape":"sliding"},"weights":{"a1":2}}}',
    1048576, 2, true, 1000000000
);

UPDATE settings SET value = 2 WHERE name = 'rules';

WITH job AS (
    INSERT INTO jobs (seq, id, enqueued_at, due_at, priority, queue, kind, key, payload)
    SELECT nextval('jobs_seq_seq') | 2, gen_random_uuid(), 1, 1, 0, 'keyed', 'k0', 'a' || i % 10, ''
    FROM generate_series(1, 30) AS i
    RETURNING seq, key
)
INSERT INTO waiting (seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind)
SELECT j.seq, 1, 0, 0, 0, 0, 0, 0, 2, 0, 'keyed', '#' || j.key
FROM job AS j;

INSERT INTO gates (queue, key, turn, open_at, in_run)
SELECT 'keyed', 'a' || i, i, CASE WHEN i > 7 THEN 1 ELSE 0 END, i < 4 FROM generate_series(0, 8) AS i;
INSERT INTO gate_runs (queue, turn, first, last, keys, count)
VALUES ('keyed', 2, 'a0', 'a2', '{a0,a2}', 2), ('keyed', 2, 'a1', 'a3', '{a1,a3}', 2);
INSERT INTO gate_reports (queue, keys, count, is_ended)
SELECT 'keyed', ARRAY['a' || i], 1, e.is_ended FROM generate_series(5, 9) AS i CROSS JOIN (VALUES (false), (true)) AS e (is_ended);
INSERT INTO gate_jobs (seq, queue, key) SELECT -i, 'keyed', 'a' || i FROM generate_series(0, 9) AS i;
INSERT INTO key_spent (queue, key, back_at, jobs)
SELECT 'keyed', 'a' || i % 10, CASE WHEN i <= 10 THEN i ELSE clock_micros() + 86400000000 + i END, 1
FROM generate_series(1, 20) AS i;

-- A queue with keys, of which each has two jobs that wait; all turns are in runs. Two keys come into being.
INSERT INTO queues (name, config, payload_max, rules) VALUES ('turned', '{"keys":{}}', 1048576, 2);

WITH job AS (
    INSERT INTO jobs (seq, id, enqueued_at, due_at, priority, queue, kind, key, payload)
    SELECT nextval('jobs_seq_seq') | 2, gen_random_uuid(), 1, 1, 0, 'turned', 'k0', 'a' || i % 10, ''
    FROM generate_series(1, 20) AS i
    RETURNING seq, key
)
INSERT INTO waiting (seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind, of_kind)
SELECT j.seq, 1, 0, 0, 0, 0, 0, 0, 2, 0, 'turned', '#' || j.key, 'k0'
FROM job AS j;

INSERT INTO gates (queue, key, turn, open_at, in_run) SELECT 'turned', 'a' || i, 2, 0, true FROM generate_series(0, 7) AS i;
INSERT INTO gate_runs (queue, turn, first, last, keys, count) VALUES ('turned', 2, 'a0', 'a7', '{a0,a1,a2,a3,a4,a5,a6,a7}', 8);
INSERT INTO gate_reports (queue, keys, count, is_ended) VALUES ('turned', '{a9,a8}', 2, false);

-- A queue with aged priority: three levels, of jobs without a key and of one key.
INSERT INTO queues (name, config, payload_max, rules) VALUES ('aged', '{"aging":10000000,"keys":{}}', 1048576, 2);

WITH job AS (
    INSERT INTO jobs (seq, id, enqueued_at, due_at, priority, queue, kind, key, payload)
    SELECT
        nextval('jobs_seq_seq') / 4 * 4 + 2 * (i % 2), gen_random_uuid(), 1, i, i % 3, 'aged', 'k0',
        CASE WHEN i % 2 = 1 THEN 'a' END, ''
    FROM generate_series(1, 18) AS i
    RETURNING seq, due_at, priority, key
)
INSERT INTO waiting (seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind)
SELECT j.seq, j.due_at, 0, 0, 0, 0, 0, 0, 2, j.priority, 'aged', coalesce('#' || j.key, 'k0')
FROM job AS j;

INSERT INTO gates (queue, key, turn, open_at) VALUES ('aged', 'a', 0, 0);

-- Records that stay, and some whose time is over.
INSERT INTO queue_records (queue, key, version, written_at, expires_at, value)
SELECT 'q', CASE WHEN i <= 8 THEN 'a' ELSE 'over' END || i, 1, 1, CASE WHEN i > 8 THEN i END, '\x00' FROM generate_series(1, 28) AS i;

INSERT INTO counted (queue, state, jobs) VALUES ('q', 3, 20), ('q', 2, 10), ('late', 2, 10), ('late', 1, 10);
