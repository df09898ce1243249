SELECT
    coalesce(
        (SELECT c.version FROM windlass_gates AS c WHERE c.queue = ?1 AND c.open_at > 0 ORDER BY c.version DESC LIMIT 1), 0
    )
FROM windlass_gates
WHERE queue = ?1
LIMIT 1
