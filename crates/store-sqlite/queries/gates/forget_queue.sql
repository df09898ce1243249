DELETE FROM windlass_gates
WHERE (queue, key) IN (SELECT g.queue, g.key FROM windlass_gates AS g WHERE g.queue = ?1 LIMIT ?2)
