SELECT seq, due_at
FROM windlass_jobs
WHERE form = 2 AND state = 2 AND queue = ?1 AND key = ?2 AND priority = ?3 AND (due_at, seq) > (?4, ?5)
ORDER BY due_at, seq
LIMIT ?6
