INSERT INTO windlass_attempts (seq, fence, late, number, worker, started_at, ended_at, ending, error)
SELECT seq, fence, ?5, attempt, coalesce(worker, ''), coalesce(claimed_at, ?2), ?2, ?3, ?4
FROM windlass_jobs
WHERE seq = ?1
