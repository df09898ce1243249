SELECT queue, at, kind, cells FROM windlass_tallies WHERE step = 0 AND at < ?1 ORDER BY at LIMIT ?2
