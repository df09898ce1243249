SELECT seq, queue, attempt, due_at, cancel, claimed_at, lease, worker
FROM windlass_jobs
WHERE id = ?1 AND state = 3 AND fence = ?2 AND nonce = ?3
