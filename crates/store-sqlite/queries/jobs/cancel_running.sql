UPDATE windlass_jobs SET cancel = 1 WHERE seq = ?1
