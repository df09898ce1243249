UPDATE windlass_jobs SET state = 2, due_at = ?2 WHERE seq = ?1
