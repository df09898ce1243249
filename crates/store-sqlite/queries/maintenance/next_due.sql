SELECT due_at FROM windlass_jobs WHERE state = 1 AND queue = ?1 ORDER BY due_at LIMIT 1
