UPDATE windlass_jobs SET state = 2 WHERE seq IN (SELECT value FROM json_each(?1))
