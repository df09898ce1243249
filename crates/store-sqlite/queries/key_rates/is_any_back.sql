SELECT EXISTS (SELECT 1 FROM windlass_key_spent WHERE back_at <= ?1)
