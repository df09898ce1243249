SELECT priority
FROM windlass_jobs
WHERE state = 2 AND queue = ?1 AND kind = ?2 AND form = 1 AND priority <= ?3
ORDER BY priority DESC
LIMIT 1
