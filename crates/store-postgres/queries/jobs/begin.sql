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
    -- A row that is locked, as by a handler that completes its job within a transaction, is passed over: it holds
    -- up no other, and its handler is about to end.
    RETURN QUERY
    WITH begun AS MATERIALIZED (
        SELECT r.seq, a.place
        FROM unnest(p_ids, p_queues, p_fences, p_nonces) WITH ORDINALITY AS a (id, queue, fence, nonce, place)
        JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
        JOIN running AS r ON r.seq = ANY (ARRAY[j.seq])
        WHERE r.fence = a.fence AND r.nonce = a.nonce AND j.queue = a.queue
        ORDER BY a.place
        FOR NO KEY UPDATE OF r SKIP LOCKED
    ), marked AS (
        UPDATE running AS r SET begun = true FROM begun AS b WHERE r.seq = b.seq
    )
    SELECT b.place FROM begun AS b;
    -- A lone attempt waits for its row: its handler starts by the answer, and "fenced" must mean it. Not for long: others
    -- may wait behind this call.
    IF NOT FOUND AND cardinality(p_ids) = 1 THEN
        PERFORM set_config('lock_timeout', '300ms', true);
        RETURN QUERY
        UPDATE running AS r
        SET begun = true
        FROM unnest(p_ids, p_queues, p_fences, p_nonces) WITH ORDINALITY AS a (id, queue, fence, nonce, place)
        JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
        WHERE r.seq = ANY (ARRAY[j.seq]) AND r.fence = a.fence AND r.nonce = a.nonce AND j.queue = a.queue
        RETURNING a.place;
    END IF;
END
$$;
