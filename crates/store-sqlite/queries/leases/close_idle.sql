DELETE FROM windlass_leases
WHERE id = ?1 AND expires_at > ?2
    AND NOT EXISTS (SELECT 1 FROM windlass_jobs AS j WHERE j.state = 3 AND j.lease = windlass_leases.key)
