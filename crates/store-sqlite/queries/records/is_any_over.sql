SELECT EXISTS (SELECT 1 FROM windlass_records WHERE expires_at <= ?1)
