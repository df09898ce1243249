SELECT q.name
FROM windlass_queues AS q
WHERE (
        q.scheduled > 0
        AND EXISTS (SELECT 1 FROM windlass_jobs AS j WHERE j.state = 1 AND j.queue = q.name AND j.due_at <= ?1)
    )
    OR (
        q.blocked + q.scheduled + q.ready > 0
        AND EXISTS (
            SELECT 1
            FROM windlass_jobs AS j
            WHERE j.state < 3 AND j.attempt = 0 AND j.expires_at IS NOT NULL
                AND j.queue = q.name AND j.expires_at <= ?1
        )
    )
ORDER BY q.name
LIMIT ?2
