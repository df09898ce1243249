INSERT INTO windlass_queues (name, config) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET config = excluded.config
