UPDATE windlass_jobs SET spec = ?2, tags = ?3, payload = ?4, due_at = coalesce(?5, due_at), mark = 0 WHERE seq = ?1
