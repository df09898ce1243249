SELECT seq, finished_at
FROM windlass_jobs
WHERE state >= 4 AND queue = ?1 AND state = ?2
ORDER BY finished_at, seq
LIMIT ?3
