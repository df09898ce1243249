-- Keeps a lease alive, unless it has run out. Waits for nobody who has locked a table that jobs are in.
--
-- result  no row when it is lost; else one row with NULL, and one per running job that is asked to stop
CREATE FUNCTION {function}(p_id uuid, p_ttl int8, p_limit int8)
RETURNS TABLE (o_id uuid, o_fence int8, o_nonce int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8;
    v_lease int8;
BEGIN
    -- The time is read when the row is ours: the wait for it may have been long.
    PERFORM 1 FROM leases WHERE id = p_id FOR NO KEY UPDATE;
    v_now := clock_micros();
    UPDATE leases SET expires_at = later(v_now, p_ttl) WHERE id = p_id AND expires_at > v_now RETURNING key INTO v_lease;
    IF v_lease IS NULL THEN
        RETURN;
    END IF;
    RETURN NEXT;
    BEGIN
        LOCK TABLE running, jobs IN ACCESS SHARE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        -- The lease must not be lost for it. Who is asked to stop hears of it from the next renewal.
        RETURN;
    END;
    RETURN QUERY
    SELECT j.id, r.fence, r.nonce
    FROM running AS r
    JOIN jobs AS j ON j.seq = ANY (ARRAY[r.seq])
    WHERE r.lease = v_lease AND r.cancel
    LIMIT p_limit;
END
$$;
