SELECT EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1)
