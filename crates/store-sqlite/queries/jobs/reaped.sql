SELECT seq, queue, cancel, lease, attempt, stalls, ambiguous, backoff, state,
    unique_digest IS NOT NULL
FROM windlass_jobs
WHERE id = ?1 AND state IN (1, 2) AND mark = 2 AND fence = ?2 AND nonce = ?3
