DELETE FROM windlass_records WHERE queue = ?1 AND key = ?2
