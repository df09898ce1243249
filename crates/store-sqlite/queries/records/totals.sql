SELECT expires_at <= ?2, length(value) FROM windlass_records WHERE queue = ?1 ORDER BY key LIMIT ?3
