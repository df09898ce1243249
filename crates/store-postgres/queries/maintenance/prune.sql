-- Removes ended jobs of one queue and state that are not kept, those that ended first before others. One at a
-- time: two of them at once would both count what is too many.
--
-- p_keep   how many are kept, p_age how long; NULL: any number, for ever
-- p_limit  how many go, at most
-- result   how many are gone
CREATE FUNCTION {function}(p_queue text, p_state int8, p_keep int8, p_age int8, p_limit int8)
RETURNS TABLE (o_gone int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
    v_seqs int8[];
    v_ends int8[];
BEGIN
    o_gone := 0;
    IF pg_try_advisory_xact_lock(hashtextextended('windlass prune ' || current_schema(), 0)) THEN
        SELECT array_agg(o.seq), array_agg(o.finished_at) INTO v_seqs, v_ends
        FROM (
            SELECT f.seq, f.finished_at, row_number() OVER () AS place
            FROM (
                SELECT seq, finished_at
                FROM ended
                WHERE hashtext(queue) = hashtext(p_queue) AND queue = p_queue AND state = p_state
                ORDER BY finished_at, seq
                LIMIT p_limit
            ) AS f
        ) AS o
        WHERE o.finished_at < v_now - p_age
            OR o.place <= (
                -- In the same snapshot as the list.
                SELECT CASE p_state WHEN 4 THEN completed WHEN 5 THEN dead ELSE cancelled END - p_keep
                FROM counts
                WHERE queue = p_queue
            );
        -- What another call is changing just now is left to the next time. What has run again meanwhile has ended anew; by
        -- an expression, so that no plan walks the index of all that have ended.
        WITH free AS MATERIALIZED (
            SELECT e.seq
            FROM unnest(v_seqs, v_ends) AS o (seq, finished_at)
            JOIN ended AS e ON e.seq = ANY (ARRAY[o.seq])
            WHERE e.finished_at + 0 = o.finished_at
            FOR UPDATE OF e SKIP LOCKED
        ), gone AS (
            DELETE FROM ended AS e USING free AS f WHERE e.seq = ANY (ARRAY[f.seq]) RETURNING e.seq
        ), forgotten AS (
            DELETE FROM attempts AS t USING gone AS g WHERE t.seq = ANY (ARRAY[g.seq])
        ), removed AS (
            DELETE FROM jobs AS j USING gone AS g WHERE j.seq = ANY (ARRAY[g.seq])
        )
        SELECT coalesce(sum(moves(p_queue, p_state, -1, NULL, g.jobs)), 0) INTO o_gone
        FROM (SELECT array_agg(seq) AS jobs FROM gone HAVING count(*) > 0) AS g;
    END IF;
    RETURN NEXT;
END
$$;
