INSERT INTO windlass_attempts (seq, fence, number, worker, started_at, ended_at, ending, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
