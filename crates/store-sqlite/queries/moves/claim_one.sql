UPDATE windlass_jobs
SET state = 3, fence = fence + 1, attempt = min(attempt + 1, 4294967295), nonce = ?2, claimed_at = ?3,
    lease = ?4, worker = ?5, cancel = 0, mark = 0
WHERE seq = ?1
