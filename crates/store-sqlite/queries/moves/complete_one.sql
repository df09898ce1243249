UPDATE windlass_jobs
SET state = 4, finished_at = ?2, cancel = 0
WHERE seq = ?1
