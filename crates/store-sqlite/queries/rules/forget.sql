DELETE FROM windlass_spent WHERE queue = ?1
