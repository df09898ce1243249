INSERT INTO windlass_periods (period, since) VALUES (?1, ?2)
