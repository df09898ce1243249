INSERT INTO windlass_gates (queue, key, turn, open_at, version) VALUES (?1, ?2, ?3, 0, 0)
