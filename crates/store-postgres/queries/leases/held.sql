-- Running jobs of some queues that were handed out under a lease by one claim, which its nonce tells.
CREATE FUNCTION {function}(p_lease uuid, p_nonce int8, p_queues text[], p_limit int8)
RETURNS TABLE (
    o_id uuid, o_fence int8, o_nonce int8, o_attempt int8, o_stalls int8, o_ambiguous int8, o_backoff int8, o_spec text,
    o_queue text, o_kind text, o_worker text, o_begun bool, o_form int8, o_tags text
)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_lease int8;
BEGIN
    -- Waits for claims under the lease that have found something: the one that is asked for may be among them.
    SELECT key INTO v_lease FROM leases WHERE id = p_lease FOR UPDATE;
    RETURN QUERY
    SELECT
        j.id, r.fence, r.nonce, r.attempt, r.stalls, r.ambiguous, r.backoff, j.spec, j.queue::text,
        j.kind::text, r.worker, r.begun, j.form::int8, j.tags::text
    FROM running AS r
    JOIN jobs AS j ON j.seq = ANY (ARRAY[r.seq])
    WHERE r.lease = v_lease AND r.nonce = p_nonce AND j.queue = ANY (p_queues)
    LIMIT p_limit;
END
$$;
