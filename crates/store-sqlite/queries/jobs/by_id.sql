SELECT seq, queue, state, unique_digest IS NOT NULL, form = 2, fence, kind FROM windlass_jobs WHERE id = ?1
