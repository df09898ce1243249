-- Which fences still hold. Changes nothing.
--
-- p_right  as in settle; or 'late', for attempts that a reaper has taken back
-- result   one row per attempt that may be written about: its place (from 1)
CREATE FUNCTION {function}(p_right text, p_ids uuid[], p_queues text[], p_fences int8[], p_nonces int8[])
RETURNS TABLE (o_place int8)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
BEGIN
    IF p_right = 'late' THEN
        RETURN QUERY
        SELECT a.place
        FROM unnest(p_ids, p_queues, p_fences, p_nonces) WITH ORDINALITY AS a (id, queue, fence, nonce, place)
        JOIN jobs AS j ON j.id = ANY (ARRAY[a.id]) AND j.queue = a.queue
        JOIN waiting AS w ON w.seq = ANY (ARRAY[j.seq]) AND w.fence = a.fence AND w.nonce = a.nonce;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT a.place
    FROM unnest(p_ids, p_queues, p_fences, p_nonces) WITH ORDINALITY AS a (id, queue, fence, nonce, place)
    JOIN jobs AS j ON j.id = ANY (ARRAY[a.id]) AND j.queue = a.queue
    JOIN running AS r ON r.seq = ANY (ARRAY[j.seq]) AND r.fence = a.fence AND r.nonce = a.nonce
    WHERE p_right = 'fence'
        OR NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.key = r.lease AND l.expires_at > v_now);
END
$$;
