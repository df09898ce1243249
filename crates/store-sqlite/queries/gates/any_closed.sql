SELECT 1 FROM windlass_gates WHERE queue = ?1 AND open_at > 0 LIMIT 1
