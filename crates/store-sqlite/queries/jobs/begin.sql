UPDATE windlass_jobs
SET mark = 1
WHERE id = ?1 AND state = 3 AND fence = ?2 AND nonce = ?3 AND queue = ?4
