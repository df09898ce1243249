-- Moves jobs of any queue whose expiry has passed to dead and those whose time has come to ready.
--
-- result  how many have expired; the queues where jobs are ready now, and how many in each
CREATE FUNCTION {function}(p_limit int8) RETURNS TABLE (o_expired int8, o_queues text[], o_promoted int8[])
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
    moved AS (
        UPDATE waiting AS w SET state = 2 FROM due AS d WHERE w.seq = ANY (ARRAY[d.seq]) RETURNING w.seq, w.queue
    )
    SELECT coalesce(array_agg(m.queue), '{}'), coalesce(array_agg(moves(m.queue, 1, 2, NULL, m.jobs)), '{}')
    FROM (SELECT queue::text AS queue, array_agg(seq) AS jobs FROM moved GROUP BY queue) AS m
    INTO o_queues, o_promoted;
    RETURN NEXT;
END
$$;
