SELECT g.open_at, g.version
FROM windlass_jobs AS j
LEFT JOIN windlass_gates AS g ON g.queue = j.queue AND g.key = j.key
WHERE j.form = 2 AND j.state = 2 AND j.queue = ?1 AND j.key = ?2
LIMIT 1
