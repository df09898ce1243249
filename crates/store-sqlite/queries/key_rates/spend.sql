INSERT INTO windlass_key_spent (queue, key, back_at, jobs, version) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (queue, key, back_at) DO UPDATE SET jobs = jobs + excluded.jobs
