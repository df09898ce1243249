SELECT seq, queue, state FROM windlass_jobs WHERE id = ?1
