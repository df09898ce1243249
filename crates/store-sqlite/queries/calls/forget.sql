DELETE FROM windlass_calls
WHERE seq IN (
    SELECT oldest.seq
    FROM (SELECT c.seq, c.period FROM windlass_calls AS c ORDER BY c.seq LIMIT ?2) AS oldest
    WHERE oldest.period < ?1
)
