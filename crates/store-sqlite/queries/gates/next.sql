SELECT version, open_at FROM windlass_gates WHERE queue = ?1 AND open_at > 0 ORDER BY version, open_at LIMIT 1
