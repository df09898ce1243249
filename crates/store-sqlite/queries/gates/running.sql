SELECT seq FROM windlass_jobs WHERE form = 2 AND state = 3 AND queue = ?1 AND key = ?2 LIMIT ?3
