INSERT INTO windlass_attempts (seq, fence, number, worker, started_at, ended_at, ending, error)
SELECT seq, fence, attempt, worker, claimed_at, ?2, ?3, ?4
FROM windlass_jobs
WHERE seq = ?1
