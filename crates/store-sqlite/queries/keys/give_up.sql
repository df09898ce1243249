DELETE FROM windlass_held WHERE queue = ?1 AND digest = ?2 AND id = ?3
