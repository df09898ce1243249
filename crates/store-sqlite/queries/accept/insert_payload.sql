INSERT INTO windlass_payloads (seq, payload) VALUES (?1, ?2)
