INSERT INTO windlass_key_spent (queue, key, back_at, jobs, version) VALUES (?1, ?2, ?3, ?4, ?5)
-- What was spent of another rate does not count.
ON CONFLICT (queue, key, back_at) DO UPDATE
SET jobs = iif(version = excluded.version, jobs, 0) + excluded.jobs, version = excluded.version
