SELECT key, worker FROM windlass_leases WHERE id = ?1 AND expires_at > ?2
