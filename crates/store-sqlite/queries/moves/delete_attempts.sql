DELETE FROM windlass_attempts WHERE seq IN (SELECT value FROM json_each(?1))
