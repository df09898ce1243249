SELECT k.id, k.free_at, j.seq, j.state, j.form, j.enqueued_at, j.due_at
FROM windlass_keys AS k
LEFT JOIN windlass_jobs AS j ON j.id = k.id AND j.queue = k.queue AND j.unique_digest = k.digest
WHERE k.queue = ?1 AND k.digest = ?2
