SELECT queue, at, kind FROM windlass_tallies WHERE step = ?1 AND at < ?2 ORDER BY at LIMIT ?3
