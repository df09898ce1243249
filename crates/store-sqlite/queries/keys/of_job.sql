SELECT id, unique_digest, unique_lifetime FROM windlass_jobs WHERE seq = ?1
