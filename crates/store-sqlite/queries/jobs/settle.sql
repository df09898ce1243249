UPDATE windlass_jobs
SET state = ?2, due_at = ?3, attempt = ?4, stalls = ?5, ambiguous = ?6, backoff = ?7,
    reason = ?8, finished_at = ?9, cancel = 0
WHERE seq = ?1
