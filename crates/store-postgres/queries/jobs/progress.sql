-- Stores what running attempts report of themselves.
--
-- p_definitions  the version of the queues' definitions by which the caller has checked the sizes
-- p_ids          ascending and without repeats of an attempt, the order in which rows are locked everywhere
-- result         one row 'stale' when the definitions have changed; else one row per stored report: its place (from 1)
CREATE FUNCTION {function}(
    p_definitions int8, p_ids uuid[], p_queues text[], p_fences int8[], p_nonces int8[], p_reports bytea[]
) RETURNS TABLE (o_answer text, o_place int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
BEGIN
    IF p_definitions <> (SELECT value FROM settings WHERE name = 'definitions') THEN
        RETURN QUERY SELECT 'stale', NULL::int8;
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE running AS r
    SET progress = a.report
    FROM
        unnest(p_ids, p_queues, p_fences, p_nonces, p_reports) WITH ORDINALITY AS a (id, queue, fence, nonce, report, place)
    JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
    WHERE r.seq = ANY (ARRAY[j.seq]) AND r.fence = a.fence AND r.nonce = a.nonce AND j.queue = a.queue
    RETURNING 'done', a.place;
END
$$;
