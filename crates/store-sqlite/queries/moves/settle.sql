UPDATE windlass_jobs
SET state = ?2, due_at = coalesce(?3, due_at), attempt = ?4, stalls = ?5, ambiguous = ?6, backoff = ?7,
    reason = ?8, finished_at = ?9, output = ?10, cancel = 0, mark = coalesce(?11, mark)
WHERE seq = ?1
