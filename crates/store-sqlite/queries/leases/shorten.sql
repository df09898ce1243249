UPDATE windlass_leases SET expires_at = ?1 + ttl WHERE expires_at > ?1 + ttl
