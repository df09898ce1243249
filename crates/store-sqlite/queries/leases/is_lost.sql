SELECT NOT EXISTS (SELECT 1 FROM windlass_leases WHERE key = ?1 AND expires_at > ?2)
