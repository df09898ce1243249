UPDATE windlass_gates
SET open_at = 0, turn = ?4
WHERE (queue, key) IN (
    SELECT g.queue, g.key
    FROM windlass_gates AS g
    WHERE g.queue = ?1 AND g.open_at > 0 AND g.version = ?2 AND g.open_at <= ?3
    ORDER BY g.open_at
    LIMIT ?5
)
