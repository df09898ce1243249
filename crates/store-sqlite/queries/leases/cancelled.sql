SELECT id, fence, nonce FROM windlass_jobs WHERE state = 3 AND lease = ?1 AND cancel = 1 ORDER BY seq LIMIT ?2
