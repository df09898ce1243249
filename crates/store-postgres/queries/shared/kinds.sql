-- Of many kinds those that may have ready jobs in the queue: by the numbers of names, each of which is one step in the index.
-- All of them where there are many.
(
    WITH RECURSIVE step AS (
        (
            SELECT hashtext(w.kind) AS number, 1 AS count FROM waiting AS w
            WHERE w.state = 2 AND hashtext(w.queue) = hashtext(v_queue)
            ORDER BY hashtext(w.kind) LIMIT 1
        )
        UNION ALL
        SELECT n.number, s.count + 1
        FROM step AS s
        CROSS JOIN LATERAL (
            SELECT hashtext(w.kind) AS number FROM waiting AS w
            WHERE w.state = 2 AND hashtext(w.queue) = hashtext(v_queue) AND hashtext(w.kind) > s.number
            ORDER BY hashtext(w.kind) LIMIT 1
        ) AS n
        WHERE s.count < 50
    ), found AS (
        SELECT array_agg(number) AS numbers FROM step
    )
    SELECT coalesce(array_agg(k.name), '{}')
    FROM found AS f
    CROSS JOIN unnest(p_kinds) AS k (name)
    WHERE cardinality(f.numbers) = 50 OR hashtext(k.name) = ANY (f.numbers)
)
