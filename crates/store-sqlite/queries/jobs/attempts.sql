SELECT fence, number, worker, started_at, ended_at, ending, error
FROM windlass_attempts
WHERE seq = ?1
ORDER BY fence, late
