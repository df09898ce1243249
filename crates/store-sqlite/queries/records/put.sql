INSERT INTO windlass_records (queue, key, version, written_at, expires_at, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (queue, key) DO UPDATE SET
    version = excluded.version, written_at = excluded.written_at, expires_at = excluded.expires_at, value = excluded.value
