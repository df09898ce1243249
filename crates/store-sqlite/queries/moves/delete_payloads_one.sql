DELETE FROM windlass_payloads WHERE seq = ?1
