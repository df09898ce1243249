-- When the first scheduled job of a queue is due.
SELECT w.due_at FROM waiting AS w
WHERE w.state = 1 AND w.queue = v_queue AND w.due_at >= v_moved_to
ORDER BY w.due_at, w.seq LIMIT 1
