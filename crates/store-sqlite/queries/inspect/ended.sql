SELECT id, finished_at, seq
FROM windlass_jobs
WHERE state >= 4 AND queue = ?1 AND state = ?2 AND (finished_at, seq) > (?3, ?4)
ORDER BY finished_at, seq
LIMIT ?5
