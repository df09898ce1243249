DELETE FROM windlass_key_spent
WHERE (queue, key, back_at) IN (
    SELECT s.queue, s.key, s.back_at FROM windlass_key_spent AS s WHERE s.back_at <= ?1 ORDER BY s.back_at LIMIT ?2
)
