UPDATE windlass_gates
SET open_at = 0, turn = ?3
WHERE (queue, key) IN (
    SELECT g.queue, g.key
    FROM windlass_gates AS g
    WHERE g.queue = ?1 AND g.open_at > 0 AND g.version < ?2
    ORDER BY g.version
    LIMIT ?4
)
