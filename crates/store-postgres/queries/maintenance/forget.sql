-- Forgets calls that are no longer repeated, those that were accepted first before others.
--
-- p_age    how long a call is remembered
-- p_limit  how many are forgotten, at most
-- result   how many were
CREATE FUNCTION {function}(p_age int8, p_limit int8) RETURNS TABLE (o_gone int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
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
    RETURN NEXT;
END
$$;
