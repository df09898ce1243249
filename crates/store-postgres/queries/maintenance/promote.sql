-- Moves jobs of any queue whose expiry has passed to dead and those whose time has come to ready.
CREATE FUNCTION {function}(p_limit int8) RETURNS TABLE (o_expired int8, o_promoted int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
BEGIN
    WITH late AS MATERIALIZED (
        SELECT seq
        FROM waiting
        WHERE attempt = 0 AND expires_at IS NOT NULL AND expires_at + 0 <= v_now
        ORDER BY expires_at + 0, seq
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ),
    {expire}
    INTO o_expired;
    WITH due AS MATERIALIZED (
        SELECT seq
        FROM waiting
        WHERE state = 1 AND due_at + 0 <= v_now
        ORDER BY due_at + 0, seq
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ),
    {promote}
    INTO o_promoted;
    RETURN NEXT;
END
$$;
