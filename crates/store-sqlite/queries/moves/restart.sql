UPDATE windlass_jobs
SET state = 2, due_at = ?2, attempt = 0, stalls = 0, ambiguous = 0, backoff = 0, mark = 0,
    reason = NULL, finished_at = NULL, expires_at = NULL, progress = NULL, output = NULL
WHERE seq = ?1
