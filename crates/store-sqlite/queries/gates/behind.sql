SELECT seq, kind
FROM windlass_jobs
WHERE form = 2 AND state = 2 AND queue = ?1 AND key = ?2
ORDER BY priority DESC, due_at, seq
LIMIT ?3
