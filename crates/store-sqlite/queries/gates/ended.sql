UPDATE windlass_gates
SET open_at = 0,
    turn = coalesce(
        (
            SELECT g.turn
            FROM windlass_gates AS g
            WHERE g.queue = windlass_gates.queue AND g.open_at = 0
            ORDER BY g.turn
            LIMIT 1
        ),
        0
    )
WHERE open_at > 0
    AND (queue, key) IN (
        SELECT j.queue, j.key FROM windlass_jobs AS j WHERE j.seq IN (SELECT value FROM json_each(?1))
    )
