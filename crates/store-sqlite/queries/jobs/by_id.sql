SELECT seq, queue, state, unique_digest IS NOT NULL FROM windlass_jobs WHERE id = ?1
