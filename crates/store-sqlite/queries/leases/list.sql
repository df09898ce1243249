SELECT
    l.id, l.worker, l.serves, l.opened_at, l.expires_at,
    (SELECT count(*) FROM windlass_jobs AS j WHERE j.state = 3 AND j.lease = l.key)
FROM windlass_leases AS l
ORDER BY l.key DESC
LIMIT ?1
