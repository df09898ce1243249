SELECT seq, state, queue, kind, tags FROM windlass_jobs WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2
