DELETE FROM windlass_key_spent
WHERE queue = ?1 AND key = ?2 AND (back_at <= ?3 OR jobs = 0 AND ?4 = 0 OR version <> ?5)
