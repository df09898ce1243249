SELECT seq, due_at
FROM windlass_jobs
WHERE state = 2 AND queue = ?1 AND kind = ?2 AND form = 1 AND priority = ?3 AND (due_at, seq) > (?4, ?5)
ORDER BY due_at, seq
LIMIT ?6
