DELETE FROM windlass_calls
WHERE (period, id) IN (
    SELECT c.period, c.id FROM windlass_calls AS c WHERE c.period < ?1 ORDER BY c.period, c.id LIMIT ?2
)
