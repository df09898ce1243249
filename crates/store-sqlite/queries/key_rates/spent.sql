SELECT back_at, jobs FROM windlass_key_spent WHERE queue = ?1 AND key = ?2 AND version = ?3
