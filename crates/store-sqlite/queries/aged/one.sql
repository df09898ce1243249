SELECT
    j.seq, j.id, j.priority, j.due_at, j.enqueued_at, j.fence, j.attempt, j.stalls, j.ambiguous, j.backoff,
    j.spec, j.tags,
    coalesce(j.payload, (SELECT p.payload FROM windlass_payloads AS p WHERE p.seq = j.seq)),
    j.unique_digest IS NOT NULL, j.kind
FROM windlass_jobs AS j
WHERE j.seq = ?1
