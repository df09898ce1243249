-- Ends the jobs that `late` has chosen and locked. The statement answers how many.
gone AS (
    DELETE FROM waiting AS w USING late AS l WHERE w.seq = ANY (ARRAY[l.seq]) RETURNING w.*
), dead AS (
    INSERT INTO ended (
        seq, finished_at, due_at, fence, backoff, attempt, stalls, ambiguous, state, queue, reason, progress
    )
    SELECT seq, v_now, due_at, fence, backoff, attempt, stalls, ambiguous, 5, queue, 'expired', progress
    FROM gone
)
SELECT coalesce(sum(moves(NULL, g.state, 5, 'expired', g.jobs, true, g.queues)), 0)
FROM (SELECT state, array_agg(seq) AS jobs, array_agg(queue::text) AS queues FROM gone GROUP BY state) AS g
