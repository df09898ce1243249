UPDATE windlass_jobs SET state = ?2, reason = ?3, finished_at = ?4 WHERE seq = ?1
