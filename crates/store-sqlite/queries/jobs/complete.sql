UPDATE windlass_jobs
SET state = 4, attempt = ?2, stalls = ?3, ambiguous = ?4, backoff = ?5, finished_at = ?6, output = ?7, cancel = 0
WHERE seq = ?1
