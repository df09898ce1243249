INSERT INTO windlass_leases (id, worker, serves, opened_at, expires_at, ttl)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (id) DO NOTHING
