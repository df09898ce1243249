SELECT
    j.seq, j.id, j.queue, j.kind, j.state, j.priority, j.due_at, j.enqueued_at, j.fence, j.attempt, j.stalls,
    j.ambiguous, j.backoff, j.cancel, j.claimed_at, j.worker, j.finished_at, j.reason, j.expires_at, j.spec,
    j.tags, j.progress, j.output,
    coalesce(j.payload, (SELECT p.payload FROM windlass_payloads AS p WHERE p.seq = j.seq)), j.mark, j.form,
    j.unique_digest, j.unique_lifetime, j.key
FROM windlass_jobs AS j
WHERE j.id = ?1
