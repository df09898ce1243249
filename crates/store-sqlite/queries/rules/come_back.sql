DELETE FROM windlass_spent WHERE queue = ?1 AND (back_at <= ?2 OR jobs = 0 AND ?3 = 0)
