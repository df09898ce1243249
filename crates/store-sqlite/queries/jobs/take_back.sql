UPDATE windlass_jobs SET mark = 2 WHERE seq = ?1
