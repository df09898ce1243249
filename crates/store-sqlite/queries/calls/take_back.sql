DELETE FROM windlass_calls WHERE period = ?1 AND id = ?2
