SELECT k.id, k.free_at, j.seq, j.state, j.form, j.enqueued_at, j.due_at
FROM windlass_keys AS k
-- A key that is held for a time outlives its job, and another one under the same id does not hold it.
LEFT JOIN windlass_jobs AS j
    ON j.id = k.id AND j.queue = k.queue AND (k.free_at IS NULL OR j.unique_digest IS k.digest)
WHERE k.queue = ?1 AND k.digest = ?2
