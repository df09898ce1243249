-- When the next job of a queue expires. In the order of the index by queue, which any other plan would have to sort.
SELECT w.expires_at FROM waiting AS w
WHERE w.queue = v_queue AND w.attempt = 0 AND w.expires_at IS NOT NULL AND w.expires_at >= v_moved_to
ORDER BY w.expires_at, w.seq LIMIT 1
