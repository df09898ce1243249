SELECT EXISTS (SELECT 1 FROM windlass_keys WHERE free_at <= ?1)
