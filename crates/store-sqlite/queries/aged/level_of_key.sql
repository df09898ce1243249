SELECT priority
FROM windlass_jobs
WHERE form = 2 AND state = 2 AND queue = ?1 AND key = ?2 AND priority <= ?3
ORDER BY priority DESC
LIMIT 1
