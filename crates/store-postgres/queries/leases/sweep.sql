-- Forgets leases that have run out and that no job hangs on.
CREATE FUNCTION {function}(p_limit int8) RETURNS TABLE (o_gone int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
    v_keys int8[];
BEGIN
    -- Two statements: a claim that was under way when the first one began has been seen by the second.
    SELECT array_agg(l.key) INTO v_keys
    FROM (
        SELECT l.key
        FROM leases AS l
        WHERE l.expires_at <= v_now AND NOT EXISTS (SELECT 1 FROM running AS r WHERE r.lease = l.key)
        ORDER BY l.key
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ) AS l;
    DELETE FROM leases AS l
    WHERE l.key = ANY (v_keys) AND NOT EXISTS (SELECT 1 FROM running AS r WHERE r.lease = l.key);
    GET DIAGNOSTICS o_gone = ROW_COUNT;
    RETURN NEXT;
END
$$;
