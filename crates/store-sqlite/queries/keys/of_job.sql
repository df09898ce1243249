SELECT id, unique_digest, unique_lifetime, unique_place IS NOT NULL FROM windlass_jobs WHERE seq = ?1
