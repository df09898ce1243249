SELECT seq, state, unique_digest IS NOT NULL, kind
FROM windlass_jobs
WHERE state < 3 AND attempt = 0 AND expires_at IS NOT NULL AND queue = ?1 AND expires_at <= ?2
ORDER BY expires_at, seq
LIMIT ?3
