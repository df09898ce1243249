SELECT j.queue, j.key, g.open_at, g.version
FROM windlass_jobs AS j
LEFT JOIN windlass_gates AS g ON g.queue = j.queue AND g.key = j.key
WHERE j.form = 2 AND j.state = 2 AND (j.queue, j.key) > (?1, ?2)
ORDER BY j.queue, j.key
LIMIT 1
