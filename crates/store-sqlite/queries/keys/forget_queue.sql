DELETE FROM windlass_held
WHERE (queue, digest) IN (SELECT k.queue, k.digest FROM windlass_held AS k WHERE k.queue = ?1 LIMIT ?2)
