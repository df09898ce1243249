UPDATE windlass_leases SET expires_at = ?2, ttl = ?4 WHERE id = ?1 AND expires_at > ?3 RETURNING key
