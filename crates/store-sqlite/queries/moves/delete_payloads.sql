DELETE FROM windlass_payloads WHERE seq IN (SELECT value FROM json_each(?1))
