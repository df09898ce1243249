SELECT seq, priority, due_at
FROM windlass_jobs
WHERE state = 2 AND queue = ?1 AND kind = ?2
ORDER BY priority DESC, due_at, seq
LIMIT ?3
