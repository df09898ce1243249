UPDATE windlass_jobs SET state = 2 WHERE seq = ?1
