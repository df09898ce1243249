DELETE FROM windlass_held
WHERE (queue, digest) IN (
    SELECT k.queue, k.digest FROM windlass_held AS k WHERE k.free_at <= ?1 ORDER BY k.free_at LIMIT ?2
)
