-- Folds the rows that calls have added to the counters into one row per queue. One at a time: whoever comes
-- second leaves it to the first.
--
-- p_limit  how many rows are folded, at most
-- result   how many were
CREATE FUNCTION {function}(p_limit int8) RETURNS TABLE (o_folded int8)
LANGUAGE plpgsql VOLATILE SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    o_folded := 0;
    IF pg_try_advisory_xact_lock(hashtextextended('windlass fold ' || current_schema(), 0)) THEN
        WITH chosen AS MATERIALIZED (
            SELECT ctid AS place FROM counts WHERE NOT folded LIMIT p_limit
        ), loose AS (
            DELETE FROM counts AS c USING chosen AS h WHERE c.ctid = h.place RETURNING c.*
        ), old AS (
            DELETE FROM counts AS c WHERE c.folded AND c.queue IN (SELECT l.queue FROM loose AS l) RETURNING c.*
        ), both_kinds AS (
            SELECT * FROM loose UNION ALL SELECT * FROM old
        ), sums AS (
            INSERT INTO counts (folded, queue, blocked, scheduled, ready, running, completed, dead, cancelled)
            SELECT
                true, queue, sum(blocked), sum(scheduled), sum(ready), sum(running), sum(completed), sum(dead),
                sum(cancelled)
            FROM both_kinds
            GROUP BY queue
            HAVING sum(blocked) <> 0 OR sum(scheduled) <> 0 OR sum(ready) <> 0 OR sum(running) <> 0
                OR sum(completed) <> 0 OR sum(dead) <> 0 OR sum(cancelled) <> 0
        )
        SELECT count(*) INTO o_folded FROM loose;
    END IF;
    RETURN NEXT;
END
$$;
