SELECT count(*) FROM windlass_tallies WHERE step = ?1 AND queue = ?2 AND at = ?3 AND kind > ''
