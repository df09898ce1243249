-- Forgets calls that are no longer repeated, unique keys whose time is over, and permits of keys that are back, the oldest
-- before others.
--
-- p_age    how long a call is remembered
-- p_limit  how many of each are forgotten, at most
-- result   how many were
CREATE FUNCTION {function}(p_age int8, p_limit int8) RETURNS TABLE (o_gone int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
    v_more int8;
BEGIN
    WITH old AS MATERIALIZED (
        SELECT id
        FROM calls
        WHERE accepted_at < v_now - p_age
        ORDER BY accepted_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM calls AS c USING old AS o WHERE c.id = ANY (ARRAY[o.id]);
    GET DIAGNOSTICS o_gone = ROW_COUNT;
    WITH old AS MATERIALIZED (
        SELECT queue, digest
        FROM keys
        WHERE free_at IS NOT NULL AND free_at <= v_now
        ORDER BY free_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM keys AS k USING old AS o WHERE k.queue = o.queue AND k.digest = ANY (ARRAY[o.digest]);
    GET DIAGNOSTICS v_more = ROW_COUNT;
    o_gone := o_gone + v_more;
    WITH old AS MATERIALIZED (
        SELECT queue, key, back_at
        FROM key_spent
        WHERE back_at <= v_now
        ORDER BY back_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM key_spent AS s
    USING old AS o
    WHERE s.queue = o.queue AND s.key = o.key AND s.back_at = ANY (ARRAY[o.back_at]);
    GET DIAGNOSTICS v_more = ROW_COUNT;
    o_gone := o_gone + v_more;
    RETURN NEXT;
END
$$;
