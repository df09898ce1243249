-- More jobs that wait, one in ten of them for tomorrow, one in ten with an expiry and one in ten to be sent, and as many that have
-- ended.
SET search_path = windlass;

CREATE TEMPORARY TABLE more ON COMMIT DROP AS
SELECT
    nextval('jobs_seq_seq') AS seq, i <= {jobs} AS is_waiting,
    CASE WHEN i % 10 = 0 THEN clock_micros() + 86400000000 ELSE i END AS due_at,
    CASE WHEN i % 10 = 1 THEN clock_micros() + 86400000000 END AS expires_at,
    CASE WHEN i % 10 = 0 THEN 1 WHEN i % 10 = 2 THEN 0 ELSE 2 END AS state, 'k' || i % 3 AS kind
FROM generate_series(
    1 + (SELECT count(*) FROM ended), {jobs} * 2 - (SELECT count(*) FROM ended)
) AS i;

INSERT INTO jobs (seq, id, enqueued_at, due_at, expires_at, priority, queue, kind, payload)
SELECT
    seq, ('00000000-0000-7000-9000-' || lpad(to_hex(seq), 12, '0'))::uuid, 1, due_at, expires_at, 0, 'q', kind, '\x00'
FROM more;

INSERT INTO waiting (
    seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind
)
SELECT
    seq, due_at, expires_at, 0, 0, 0, 0, 0, 1, state, 0, 'q', kind
FROM more
WHERE is_waiting;

INSERT INTO ended (
    seq, finished_at, due_at, fence, backoff, claimed_at, attempt, stalls, ambiguous, state, queue, worker
)
SELECT seq, seq, 1, 1, 0, 1, 1, 0, 0, CASE WHEN seq % 100 = 0 THEN 5 ELSE 4 END, 'q', 'w'
FROM more
WHERE NOT is_waiting;

INSERT INTO attempts (seq, fence, number, started_at, ended_at, worker, ending)
SELECT seq, 1, 1, 1, 1, 'w', 'failed' FROM ended WHERE state = 5
ON CONFLICT DO NOTHING;

INSERT INTO keys (queue, digest, seq, id, free_at, at_start)
SELECT 'q', gen_random_uuid(), seq, gen_random_uuid(), CASE WHEN seq % 4 = 0 THEN seq END, false FROM more WHERE is_waiting;

-- Of other keys: gates that are open and closed, jobs that run, permits.
INSERT INTO gates (queue, key, turn, open_at)
SELECT 'keyed', 'b' || seq, seq + 1000, CASE WHEN seq % 8 = 0 THEN 0 ELSE 9223372036854775807 END FROM more WHERE is_waiting;
INSERT INTO gate_runs (queue, turn, first, last, keys, count)
SELECT 'keyed', seq + 1000, 'd' || seq, 'd' || seq, ARRAY['d' || seq], 1 FROM more WHERE is_waiting;
INSERT INTO gates (queue, key, turn, open_at, in_run) SELECT 'turned', 'b' || seq, 0, 0, true FROM more WHERE is_waiting;
INSERT INTO gate_runs (queue, turn, first, last, keys, count)
SELECT 'turned', seq + 1000, 'b' || seq, 'b' || seq, ARRAY['b' || seq], 1 FROM more WHERE is_waiting;
INSERT INTO gate_jobs (seq, queue, key) SELECT seq, 'keyed', 'b' || seq FROM more WHERE is_waiting;
INSERT INTO key_spent (queue, key, back_at, jobs)
SELECT 'keyed', 'b' || seq, clock_micros() + 86400000000 + seq, 1 FROM more WHERE is_waiting;

-- And lines of keys that claims do not come to.
INSERT INTO waiting (seq, due_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind)
SELECT -1000000000 - seq, 1, 0, 0, 0, 0, 0, 0, 2, 0, 'keyed', '#c' || seq FROM more WHERE is_waiting;

INSERT INTO queue_records (queue, key, version, written_at, expires_at, value)
SELECT 'q', 'b' || seq, seq, 1, CASE WHEN seq % 8 = 0 THEN clock_micros() + 86400000000 + seq END, '\x00' FROM more WHERE is_waiting;

INSERT INTO calls (id, accepted_at) SELECT gen_random_uuid(), seq FROM more WHERE is_waiting;

DELETE FROM moved;
DELETE FROM counted;
INSERT INTO counted (queue, state, jobs)
SELECT queue, state, count(*) FROM waiting GROUP BY queue, state
UNION ALL
SELECT queue, state, count(*) FROM ended GROUP BY queue, state
UNION ALL
SELECT 'q', 3, 20;
