-- Hands the jobs at these places over to the lease. They are locked, so they are where they were. Those of queues whose running
-- jobs are counted say so.
WITH gone AS (
    DELETE FROM waiting WHERE ctid = ANY (v_places)
    RETURNING seq, fence + 1 AS fence, due_at, backoff, least(attempt + 1, 4294967295) AS attempt, stalls, ambiguous, progress,
        CASE WHEN queue = ANY (v_counted) THEN queue END AS counted, queue, coalesce(of_kind, kind) AS kind
), taken AS (
    INSERT INTO running (
        seq, lease, nonce, fence, claimed_at, due_at, backoff, attempt, stalls, ambiguous, cancel, worker, progress, begun, queue
    )
    SELECT g.seq, v_lease, p_nonce, g.fence, v_now, g.due_at, g.backoff, g.attempt, g.stalls, g.ambiguous, false, v_worker,
        g.progress, false, g.counted
    FROM gone AS g
), tally AS (
    INSERT INTO tallied (minute, times, cell, queue, kind)
    SELECT v_now / 60000000 * 60000000, count(*), 32 + tally_bucket(v_now - g.due_at), g.queue, g.kind
    FROM gone AS g GROUP BY 3, 4, 5
)
SELECT
    'job', g.seq, j.id, j.queue::text, j.kind::text, j.payload, j.priority, g.fence, g.attempt, g.stalls, g.ambiguous,
    g.backoff, j.spec, j.tags::text, j.enqueued_at, g.due_at, v_now, j.form::int8
FROM gone AS g
JOIN jobs AS j ON j.seq = ANY (ARRAY[g.seq])
