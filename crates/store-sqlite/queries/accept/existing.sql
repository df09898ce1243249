SELECT
    j.state, j.queue, j.kind,
    coalesce(j.payload, (SELECT p.payload FROM windlass_payloads AS p WHERE p.seq = j.seq))
FROM windlass_jobs AS j
WHERE j.id = ?1
