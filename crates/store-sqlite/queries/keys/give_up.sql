DELETE FROM windlass_keys WHERE queue = ?1 AND digest = ?2 AND id = ?3
