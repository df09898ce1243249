SELECT seq, form = 2
FROM windlass_jobs
WHERE state = 1 AND queue = ?1 AND due_at <= ?2
ORDER BY due_at, seq
LIMIT ?3
