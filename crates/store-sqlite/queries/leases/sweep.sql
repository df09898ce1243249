DELETE FROM windlass_leases
WHERE key IN (
    SELECT l.key
    FROM windlass_leases AS l
    WHERE l.expires_at <= ?1
        AND NOT EXISTS (SELECT 1 FROM windlass_jobs AS j WHERE j.state = 3 AND j.lease = l.key)
    ORDER BY l.expires_at, l.key
    LIMIT ?2
)
