UPDATE windlass_jobs SET unique_place = ?2 WHERE seq = ?1
