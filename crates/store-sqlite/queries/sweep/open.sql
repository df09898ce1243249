UPDATE windlass_gates SET open_at = 0, turn = ?3 WHERE queue = ?1 AND key = ?2
