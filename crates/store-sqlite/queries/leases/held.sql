SELECT
    j.id, j.fence, j.nonce, j.attempt, j.stalls, j.ambiguous, j.backoff, j.spec,
    j.queue, j.kind, j.worker, j.mark, j.form
FROM windlass_leases AS l
CROSS JOIN windlass_jobs AS j ON j.state = 3 AND j.lease = l.key
WHERE l.id = ?1 AND j.nonce = ?2
