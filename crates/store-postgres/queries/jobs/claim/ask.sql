-- A part of the claim: the open gates of a queue that are asked in a round, in their order. The definition of the queue is locked.
--
-- p_new, p_turn  keys whose gates have come into being, and with which turn; they are not written yet
-- p_gates        how many gates
-- p_done         keys that are not asked again
-- p_weights      as in queues/key_rules
-- result         how many; of each where it is (NULL: it is not written yet), its key and its weight; and the sum of the weights
CREATE FUNCTION {function}(p_queue text, p_new text[], p_turn int8, p_gates int8, p_done text[], p_weights jsonb)
RETURNS TABLE (o_asked int8, o_at tid[], o_keys text[], o_weights int8[], o_weight int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    SELECT count(*), array_agg(g.at), array_agg(g.key) INTO o_asked, o_at, o_keys
    FROM (
        SELECT g.ctid AS at, g.key::text AS key
        FROM gates AS g
        -- By a query, which is hashed, where a comparison with each element would be made for each gate.
        WHERE hashtext(g.queue) = hashtext(p_queue) AND g.queue = p_queue AND g.open_at = 0 AND p_new = '{}'
            AND (cardinality(p_done) = 0 OR g.key NOT IN (SELECT d.key FROM unnest(p_done) AS d (key)))
        ORDER BY g.turn, g.key
        LIMIT p_gates
    ) AS g;
    IF p_new <> '{}' THEN
        -- Nothing was asked yet.
        SELECT count(*), array_agg(g.at), array_agg(g.key) INTO o_asked, o_at, o_keys
        FROM (
            SELECT g.at, g.key
            FROM (
                (
                    SELECT g.ctid AS at, g.key::text AS key, g.turn
                    FROM gates AS g
                    WHERE hashtext(g.queue) = hashtext(p_queue) AND g.queue = p_queue AND g.open_at = 0
                    ORDER BY g.turn, g.key
                    LIMIT p_gates
                )
                UNION ALL
                SELECT NULL, n.key, p_turn FROM unnest(p_new) AS n (key)
            ) AS g
            ORDER BY g.turn, g.key COLLATE "C"
            LIMIT p_gates
        ) AS g;
    END IF;
    IF p_weights = '{}' THEN
        o_weights := array_fill(1::int8, ARRAY[o_asked::int4]); o_weight := o_asked;
    ELSE
        SELECT array_agg(w.weight), sum(w.weight) INTO o_weights, o_weight
        FROM (
            SELECT greatest(coalesce((p_weights ->> k.key)::int8, 1), 1) AS weight FROM unnest(o_keys) AS k (key)
        ) AS w;
    END IF;
    RETURN NEXT;
END
$$;
