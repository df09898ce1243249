UPDATE windlass_leases
SET expires_at = iif(expires_at > ?1, ?2 + coalesce(ttl, ?3), min(expires_at, ?2))
