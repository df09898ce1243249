UPDATE windlass_jobs SET state = 5, reason = ?2, finished_at = ?3 WHERE seq = ?1
