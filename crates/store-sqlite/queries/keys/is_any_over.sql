SELECT EXISTS (SELECT 1 FROM windlass_held WHERE free_at <= ?1)
