DELETE FROM windlass_attempts WHERE seq = ?1 AND fence <= ?2
