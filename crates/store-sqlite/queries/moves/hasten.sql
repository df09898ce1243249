UPDATE windlass_jobs SET state = 2, due_at = ?2, mark = 0 WHERE seq = ?1
