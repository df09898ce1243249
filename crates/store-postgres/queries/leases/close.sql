-- Ends a lease. Without jobs it is forgotten; otherwise it runs out now and they can be reaped.
CREATE FUNCTION {function}(p_id uuid) RETURNS TABLE (o_key int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8;
BEGIN
    -- Waits for claims under the lease; those that come later find it gone.
    SELECT key INTO o_key FROM leases WHERE id = p_id FOR UPDATE;
    v_now := clock_micros();
    PERFORM 1 FROM running WHERE lease = o_key LIMIT 1;
    IF found THEN
        UPDATE leases SET expires_at = v_now WHERE key = o_key AND expires_at > v_now;
    ELSE
        DELETE FROM leases WHERE key = o_key AND expires_at > v_now;
    END IF;
    RETURN NEXT;
END
$$;
