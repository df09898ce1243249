SELECT
    j.id, j.fence, j.nonce, j.attempt, j.stalls, j.ambiguous, j.backoff, j.spec,
    j.queue, j.kind, j.worker, j.mark, j.form
FROM windlass_leases AS l
CROSS JOIN windlass_jobs AS j ON j.state = 3 AND j.lease = l.key
WHERE l.expires_at <= ?1
ORDER BY l.expires_at, l.key, j.seq
LIMIT ?2
