-- Hands the jobs at these places over to the lease. They are locked, so they are where they were.
WITH gone AS (
    DELETE FROM waiting WHERE ctid = ANY (v_places) RETURNING *
), taken AS (
    INSERT INTO running (
        seq, lease, nonce, fence, claimed_at, due_at, backoff, attempt, stalls, ambiguous, cancel, worker, progress,
        begun
    )
    SELECT
        g.seq, v_lease, p_nonce, g.fence + 1, v_now, g.due_at, g.backoff, least(g.attempt + 1, 4294967295),
        g.stalls, g.ambiguous, false, v_worker, g.progress, false
    FROM gone AS g
    RETURNING seq, fence, due_at, backoff, attempt, stalls, ambiguous
)
SELECT
    'job', t.seq, j.id, q, j.kind::text, j.payload, j.priority, t.fence, t.attempt, t.stalls, t.ambiguous,
    t.backoff, j.spec, j.tags::text, j.enqueued_at, t.due_at, v_now, j.form::int8
FROM taken AS t
JOIN jobs AS j ON j.seq = ANY (ARRAY[t.seq])
