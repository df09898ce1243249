DELETE FROM windlass_jobs WHERE seq = ?1
