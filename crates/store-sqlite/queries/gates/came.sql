INSERT INTO windlass_gates (queue, key, turn, open_at, version)
SELECT
    j.queue, j.key,
    coalesce(
        (SELECT g.turn FROM windlass_gates AS g WHERE g.queue = j.queue AND g.open_at = 0 ORDER BY g.turn LIMIT 1), 0
    ),
    0, 0
FROM windlass_jobs AS j
WHERE j.seq IN (SELECT value FROM json_each(?1)) AND j.key IS NOT NULL
ON CONFLICT (queue, key) DO NOTHING
