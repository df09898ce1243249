UPDATE windlass_gates SET turn = ?3, open_at = ?4, version = ?5 WHERE queue = ?1 AND key = ?2
