SELECT EXISTS (SELECT 1 FROM windlass_jobs WHERE id = ?1)
