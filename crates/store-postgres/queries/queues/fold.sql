-- Folds the rows that calls have added to the counters. One at a time: whoever comes second leaves it to the first.
--
-- p_limit  how many rows are folded, at most
-- result   how many were
CREATE FUNCTION {function}(p_limit int8) RETURNS TABLE (o_folded int8)
LANGUAGE plpgsql VOLATILE SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_queues text[];
BEGIN
    o_folded := 0;
    IF pg_try_advisory_xact_lock(hashtextextended('windlass fold ' || current_schema(), 0)) THEN
        WITH loose AS (
            DELETE FROM moved WHERE ctid = ANY (ARRAY(SELECT m.ctid FROM moved AS m LIMIT p_limit))
            RETURNING queue, state_before, state, jobs
        ), sums AS (
            INSERT INTO counted AS c (queue, state, jobs)
            SELECT s.queue, s.state, sum(s.jobs)
            FROM (
                SELECT queue, state, jobs FROM loose
                UNION ALL
                SELECT queue, state_before, -jobs FROM loose
            ) AS s
            WHERE s.state >= 0
            GROUP BY s.queue, s.state
            HAVING sum(s.jobs) <> 0
            ON CONFLICT (queue, state) DO UPDATE SET jobs = c.jobs + excluded.jobs
        )
        SELECT count(*), array_agg(DISTINCT l.queue) INTO o_folded, v_queues FROM loose AS l;
        -- A queue without jobs leaves nothing behind.
        DELETE FROM counted WHERE queue = ANY (v_queues) AND jobs = 0;
    END IF;
    RETURN NEXT;
END
$$;
