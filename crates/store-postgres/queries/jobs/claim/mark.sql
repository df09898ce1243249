-- A part of the claim: sees to it that all jobs of a queue with a concurrency that run can be counted in running. Those that
-- were claimed before the queue had one get their queue there, two minutes after claims have begun to write it: by then all
-- claims that did not have ended. What cannot be reached is left to the next time, and until then the counters count.
--
-- p_counted_from  since when claims write the queue there; NULL: from now on
-- The definition of the queue is locked.
CREATE FUNCTION {function}(p_now int8, p_queue text, p_counted_from int8) RETURNS TABLE (o_marked int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    o_marked := 0;
    IF p_counted_from > p_now - 120000000 THEN
        RETURN NEXT;
        RETURN;
    END IF;
    IF p_counted_from IS NOT NULL THEN
        WITH open AS MATERIALIZED (
            SELECT r.seq
            FROM running AS r
            JOIN jobs AS j ON j.seq = ANY (ARRAY[r.seq])
            WHERE r.queue IS NULL AND j.queue = p_queue
            LIMIT 10000
            FOR UPDATE OF r SKIP LOCKED
        )
        UPDATE running AS r SET queue = p_queue FROM open AS o WHERE r.seq = ANY (ARRAY[o.seq]);
        GET DIAGNOSTICS o_marked = ROW_COUNT;
    END IF;
    UPDATE queues AS q
    SET counted_from = CASE
        WHEN p_counted_from IS NOT NULL AND (SELECT count(*) FROM running AS r WHERE r.queue = p_queue) = ({running}) THEN 0
        ELSE p_now
    END
    WHERE q.name = p_queue;
    RETURN NEXT;
END
$$;
