-- Running jobs whose lease has run out. Those that an open transaction has locked are left out: no reaper can take them
-- back now, and however many there are, they hide no others.
CREATE FUNCTION {function}(p_limit int8)
RETURNS TABLE (
    o_id uuid, o_fence int8, o_nonce int8, o_attempt int8, o_stalls int8, o_ambiguous int8, o_backoff int8, o_spec text,
    o_queue text, o_kind text, o_worker text, o_begun bool, o_form int8, o_tags text
)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
BEGIN
    RETURN QUERY
    SELECT
        j.id, r.fence, r.nonce, r.attempt, r.stalls, r.ambiguous, r.backoff, j.spec, j.queue::text,
        j.kind::text, r.worker, r.begun, j.form::int8, j.tags::text
    FROM leases AS l
    JOIN running AS r ON r.lease = ANY (ARRAY[l.key])
    JOIN jobs AS j ON j.seq = ANY (ARRAY[r.seq])
    WHERE l.expires_at <= v_now
    LIMIT p_limit
    FOR UPDATE OF r SKIP LOCKED;
END
$$;
