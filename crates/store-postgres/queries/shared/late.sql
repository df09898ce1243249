-- Whether a job of a queue has expired. In the order of the index by queue, which any other plan would have to sort.
SELECT true FROM waiting AS w
WHERE w.queue = v_queue AND w.attempt = 0 AND w.expires_at IS NOT NULL
    AND w.expires_at >= v_moved_to AND w.expires_at <= v_now
ORDER BY w.expires_at, w.seq LIMIT 1
