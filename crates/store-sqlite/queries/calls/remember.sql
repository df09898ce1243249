INSERT INTO windlass_calls (period, id)
SELECT ?1, ?2
WHERE NOT EXISTS (
    SELECT 1 FROM windlass_calls AS c WHERE c.period IN (?1, ?1 - 1, ?1 - 2, ?1 - 3) AND c.id = ?2
)
