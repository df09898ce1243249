SELECT seq, length(value) FROM windlass_records WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
