UPDATE windlass_jobs
SET state = 2
WHERE seq IN (
    SELECT seq
    FROM windlass_jobs
    WHERE state = 1 AND queue = ?1 AND due_at <= ?2
    ORDER BY due_at, seq
    LIMIT ?3
)
