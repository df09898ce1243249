SELECT EXISTS (SELECT 1 FROM windlass_tallies WHERE step = ?1 AND at < ?2)
