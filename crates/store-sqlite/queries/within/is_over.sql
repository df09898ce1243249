SELECT NOT EXISTS (SELECT 1 FROM windlass_jobs WHERE id = ?1 AND state = 3 AND fence = ?2 AND nonce = ?3)
