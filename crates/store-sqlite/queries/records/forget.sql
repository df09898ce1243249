DELETE FROM windlass_records WHERE seq IN (SELECT value FROM json_each(?1))
