-- The ready jobs of one queue and kind that lie behind a place of its order, in order. A job may have been put back after
-- the look for expired ones, so expiry is tested here too.
SELECT w.ctid, w.seq, w.size, ~w.priority AS rank, w.due_at
FROM waiting AS w
WHERE w.state = 2 AND w.queue = v_queue AND w.kind = v_kind
    AND (~w.priority, w.due_at, w.seq) > (v_rank, v_due_at, v_seq) AND ~w.priority < v_rank_end
    AND (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > v_now)
ORDER BY ~w.priority, w.due_at, w.seq
