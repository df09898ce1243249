SELECT seq, kind
FROM windlass_jobs
WHERE form = 2 AND state IN (2, 3) AND queue = ?1 AND key = ?2 AND state = 2
ORDER BY priority DESC, due_at, seq
LIMIT ?3
