-- The leases, the newest first, with the number of jobs that hang on each.
CREATE FUNCTION {function}(p_limit int8)
RETURNS TABLE (
    o_id uuid, o_worker text, o_serves text, o_opened_at int8, o_expires_at int8, o_is_lost bool, o_running int8
)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
BEGIN
    RETURN QUERY
    SELECT
        l.id, l.worker, l.serves, l.opened_at, l.expires_at, l.expires_at <= v_now,
        (SELECT count(*) FROM running AS r WHERE r.lease = l.key)
    FROM leases AS l
    ORDER BY l.key DESC
    LIMIT p_limit;
END
$$;
