SELECT seq, state IN (4, 5, 6) FROM windlass_jobs WHERE unique_place = ?1
