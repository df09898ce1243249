INSERT INTO windlass_jobs (
    id, queue, kind, state, priority, due_at, enqueued_at,
    fence, attempt, stalls, ambiguous, cancel, backoff,
    expires_at, spec, tags, payload, unique_digest, unique_lifetime, key, form
)
VALUES
    (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, ?, ?, ?, ?, ?, ?, ?, 2)
ON CONFLICT (id) DO NOTHING
