DELETE FROM windlass_attempts WHERE seq = ?1
