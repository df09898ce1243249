SELECT seq, queue, cancel, lease, attempt, stalls, ambiguous, backoff, state,
    unique_digest IS NOT NULL, form = 2, kind, claimed_at
FROM windlass_jobs
WHERE id = ?1 AND state = 3 AND fence = ?2 AND nonce = ?3
