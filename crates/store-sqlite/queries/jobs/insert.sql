INSERT INTO windlass_jobs (
    id, queue, kind, state, priority, due_at, enqueued_at,
    fence, attempt, stalls, ambiguous, cancel, backoff,
    expires_at, retry, timeout, stalls_max, tags, payload
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, 0, 0, 0, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (id) DO NOTHING
