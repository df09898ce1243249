-- Deletes attempts that completed, each if its fence still holds, to be followed by what is returned of them.
DELETE FROM running AS r
USING
    (
        SELECT
            i, p_ids[i] AS id, coalesce(p_queues[i], p_queues[1]) AS queue, coalesce(p_fences[i], p_fences[1]) AS fence,
            coalesce(p_nonces[i], p_nonces[1]) AS nonce, coalesce(p_attempts[i], p_attempts[1]) AS attempt
        FROM (SELECT generate_series(1, cardinality(p_ids)) AS i) AS n
        OFFSET 0
    ) AS a
JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
WHERE r.seq = ANY (ARRAY[j.seq]) AND r.fence = a.fence AND r.nonce = a.nonce AND j.queue = a.queue
