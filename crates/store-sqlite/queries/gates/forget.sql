DELETE FROM windlass_gates WHERE queue = ?1 AND key = ?2
