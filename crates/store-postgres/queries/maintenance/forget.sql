-- Forgets calls that are no longer repeated, unique keys and records whose time is over, and permits of keys that are back, the
-- oldest before others.
--
-- p_age    how long a call is remembered
-- p_limit  how many of each are forgotten, at most
-- p_records_limit  the same for records, which may be large
-- result   how many were, and whether there may be more
CREATE FUNCTION {function}(p_age int8, p_limit int8, p_records_limit int8) RETURNS TABLE (o_gone int8, o_has_more bool)
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
    o_has_more := o_gone >= p_limit;
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
    o_has_more := o_has_more OR v_more >= p_limit;
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
    o_has_more := o_has_more OR v_more >= p_limit;
    WITH old AS MATERIALIZED (
        SELECT queue, key
        FROM queue_records
        WHERE expires_at <= v_now
        ORDER BY expires_at
        LIMIT p_records_limit
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM queue_records AS r USING old AS o WHERE r.queue = o.queue AND r.key = ANY (ARRAY[o.key]);
    GET DIAGNOSTICS v_more = ROW_COUNT;
    o_gone := o_gone + v_more;
    o_has_more := o_has_more OR v_more >= p_records_limit;
    RETURN NEXT;
END
$$;
