-- Notes that attempts have begun, each only if its fence still holds.
--
-- p_ids   ascending, the order in which rows are locked everywhere
-- result  one row per attempt that has: its place (from 1)
CREATE FUNCTION {function}(p_ids uuid[], p_queues text[], p_fences int8[], p_nonces int8[])
RETURNS TABLE (o_place int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE running AS r
    SET begun = true
    FROM unnest(p_ids, p_queues, p_fences, p_nonces) WITH ORDINALITY AS a (id, queue, fence, nonce, place)
    JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
    WHERE r.seq = ANY (ARRAY[j.seq]) AND r.fence = a.fence AND r.nonce = a.nonce AND j.queue = a.queue
    RETURNING a.place;
END
$$;
