SELECT j.id, NULL, j.seq, j.state, j.form, j.enqueued_at, j.due_at
FROM windlass_jobs AS j
-- One whose digest does not read may be the one that is asked for. One whose id does not read can hold nothing.
WHERE j.unique_place = ?3 AND j.queue = ?1 AND (j.unique_digest = ?2 OR coalesce(length(j.unique_digest), 0) <> 16)
    AND length(j.id) = 16 AND j.state NOT IN (4, 5, 6)
UNION ALL
SELECT k.id, k.free_at, j.seq, j.state, j.form, j.enqueued_at, j.due_at
FROM windlass_held AS k
-- A key that is held for a time outlives its job, and another one under the same id does not hold it.
LEFT JOIN windlass_jobs AS j
    ON j.id = k.id AND j.queue = k.queue AND (k.free_at IS NULL OR j.unique_digest IS k.digest)
WHERE k.queue = ?1 AND k.digest = ?2
