INSERT INTO windlass_spent (queue, back_at, jobs) VALUES (?1, ?2, ?3)
ON CONFLICT (queue, back_at) DO UPDATE SET jobs = jobs + excluded.jobs
