INSERT INTO windlass_tallies (step, queue, at, kind, cells) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (step, queue, at, kind) DO UPDATE SET cells = excluded.cells
