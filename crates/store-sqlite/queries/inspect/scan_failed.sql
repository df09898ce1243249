SELECT seq, state, queue, kind, tags
FROM windlass_jobs
WHERE state >= 5 AND state = ?3 AND seq < ?1
ORDER BY seq DESC
LIMIT ?2
