INSERT INTO windlass_leases (id, worker, queues, opened_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (id) DO NOTHING
