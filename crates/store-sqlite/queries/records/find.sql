SELECT key, version, written_at, expires_at, value FROM windlass_records
WHERE queue = ?1 AND key = ?2 AND (expires_at IS NULL OR expires_at > ?3)
