SELECT back_at, jobs FROM windlass_spent WHERE queue = ?1
