SELECT seq FROM windlass_jobs WHERE form = 2 AND state IN (2, 3) AND queue = ?1 AND key = ?2 AND state = 3 LIMIT ?3
