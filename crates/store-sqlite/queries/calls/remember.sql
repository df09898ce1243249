INSERT INTO windlass_calls (period, since, ids) VALUES (?1, ?2, ?3)
