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
    ), gone AS (
        DELETE FROM waiting AS w USING late AS l WHERE w.seq = ANY (ARRAY[l.seq]) RETURNING w.*
    ), dead AS (
        INSERT INTO ended (
            seq, finished_at, due_at, fence, backoff, attempt, stalls, ambiguous, state, queue, reason, progress
        )
        SELECT seq, v_now, due_at, fence, backoff, attempt, stalls, ambiguous, 5, queue, 'expired', progress
        FROM gone
    ), count AS (
        INSERT INTO counts (queue, blocked, scheduled, ready, dead)
        SELECT
            queue, -count(*) FILTER (WHERE state = 0), -count(*) FILTER (WHERE state = 1),
            -count(*) FILTER (WHERE state = 2), count(*)
        FROM gone
        GROUP BY queue
    )
    SELECT count(*) INTO o_expired FROM gone;
    WITH due AS MATERIALIZED (
        SELECT seq
        FROM waiting
        WHERE state = 1 AND due_at + 0 <= v_now
        ORDER BY due_at + 0, seq
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE waiting AS w SET state = 2 FROM due AS d WHERE w.seq = ANY (ARRAY[d.seq]) RETURNING w.queue
    ), count AS (
        INSERT INTO counts (queue, scheduled, ready)
        SELECT queue, -count(*), count(*) FROM moved GROUP BY queue
    )
    SELECT count(*) INTO o_promoted FROM moved;
    RETURN NEXT;
END
$$;
