SELECT key, turn FROM windlass_gates WHERE queue = ?1 AND open_at = 0 ORDER BY turn, key LIMIT ?2
