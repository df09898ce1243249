UPDATE windlass_jobs SET state = 6, reason = ?2, finished_at = ?3 WHERE seq = ?1
