SELECT seq, state, queue, kind, tags
FROM windlass_jobs INDEXED BY windlass_jobs_running
WHERE state = 3 AND seq < ?1
ORDER BY seq DESC
LIMIT ?2
