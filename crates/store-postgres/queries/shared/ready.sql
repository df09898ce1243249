-- The ready jobs of one queue and kind, to be followed by what else must hold and by their order. A job may have been put
-- back after the look for expired ones, so expiry is tested here too.
SELECT w.ctid, w.seq, w.size, ~w.priority AS rank, w.due_at
FROM waiting AS w
WHERE w.state = 2 AND hashtext(w.queue) = hashtext(v_queue) AND hashtext(w.kind) = hashtext(v_kind)
    AND w.queue = v_queue AND w.kind = v_kind
    AND (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > v_now)
