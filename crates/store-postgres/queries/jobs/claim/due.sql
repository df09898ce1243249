-- A part of the claim: what has expired in a queue dies, and what is due becomes ready.
--
-- p_moved_to  from which instant on to look
-- p_late_max  how many expired jobs die, and p_due_max how many due ones become ready, at most
-- result      how many have died; whether more have expired than that; when the next job is due (NULL: none)
CREATE FUNCTION {function}(p_now int8, p_queue text, p_moved_to int8, p_late_max int8, p_due_max int8)
RETURNS TABLE (o_died int8, o_is_behind bool, o_due int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_now ALIAS FOR p_now;
    v_queue ALIAS FOR p_queue;
    v_moved_to ALIAS FOR p_moved_to;
BEGIN
    WITH late AS MATERIALIZED (
        SELECT w.seq
        FROM waiting AS w
        WHERE w.queue = p_queue AND w.attempt = 0 AND w.expires_at IS NOT NULL
            AND w.expires_at >= p_moved_to AND w.expires_at <= v_now
        ORDER BY w.expires_at, w.seq
        LIMIT p_late_max
        FOR UPDATE SKIP LOCKED
    ),
    {expire}
    INTO o_died;
    o_is_behind := coalesce(({late}), false);
    IF NOT o_is_behind THEN
        WITH due AS MATERIALIZED (
            SELECT w.seq
            FROM waiting AS w
            WHERE w.state = 1 AND w.queue = p_queue AND w.due_at >= p_moved_to AND w.due_at <= v_now
            ORDER BY w.due_at, w.seq
            LIMIT p_due_max
            FOR UPDATE SKIP LOCKED
        ),
        {promote}
        INTO p_due_max;
    END IF;
    o_due := ({next});
    RETURN NEXT;
END
$$;
