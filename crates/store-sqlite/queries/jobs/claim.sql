UPDATE windlass_jobs
SET state = 3, fence = ?2, attempt = ?3, nonce = ?4, claimed_at = ?5, lease = ?6, worker = ?7, cancel = 0
WHERE seq = ?1
