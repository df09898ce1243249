DELETE FROM windlass_keys
WHERE (queue, digest) IN (SELECT k.queue, k.digest FROM windlass_keys AS k WHERE k.queue = ?1 LIMIT ?2)
