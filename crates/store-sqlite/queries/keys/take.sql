INSERT INTO windlass_held (queue, digest, id, free_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue, digest) DO UPDATE SET id = excluded.id, free_at = excluded.free_at
