INSERT INTO windlass_jobs (
    id, queue, kind, state, priority, due_at, enqueued_at,
    fence, attempt, stalls, ambiguous, cancel, backoff,
    expires_at, spec, tags, payload, unique_digest, unique_lifetime
)
VALUES
    (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING
