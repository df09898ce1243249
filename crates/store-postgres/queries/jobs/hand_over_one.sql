-- The short form of jobs/hand_over: one plain job, and a claim in one queue. Mostly nothing else waits there: then the job goes to
-- the lease without waiting for a moment; see accept_started in migrations/0010_alike. Else it is stored as jobs/enqueue_one does,
-- and the claim is made as jobs/claim/one does. Locks are waited for briefly, as there.
--
-- p_definitions to p_call  the parameters of jobs/enqueue_one
-- p_lease to p_at_once     those of jobs/claim/one
-- result                   as that of jobs/hand_over
CREATE FUNCTION {function}(
    p_definitions int8, p_id uuid, p_queue text, p_kind text, p_payload bytea, p_priority int8, p_spec text, p_tags text,
    p_call uuid,
    p_lease uuid, p_nonce int8, p_claimed_queue text, p_claimed_kind text, p_claimed_kinds text[], p_limit int8, p_bytes int8,
    p_move_max int8, p_moved_to int8, p_claimed_definitions int8, p_at_once int8
) RETURNS TABLE (
    o_answer text, o_seq int8, o_id uuid, o_queue text, o_kind text, o_payload bytea, o_priority int2, o_fence int8,
    o_attempt int8, o_stalls int8, o_ambiguous int8, o_backoff int8, o_spec text,
    o_tags text, o_enqueued_at int8, o_due_at int8, o_claimed_at int8, o_form int8, o_stored text
)
LANGUAGE plpgsql VOLATILE {steady} SET lock_timeout = '100ms'
AS $$
#variable_conflict use_column
DECLARE
    v_queue ALIAS FOR p_queue; v_moved_to ALIAS FOR p_moved_to;
    v_now int8 := clock_micros(); v_lease int8; v_worker text; v_due int8; v_definitions int8; v_looked int8; v_is_first bool;
    v_seq int8;
BEGIN
    SELECT
        l.key, l.worker, ({next}), {looked}, (SELECT value FROM settings WHERE name = 'definitions'),
        NOT EXISTS ({late})
        AND NOT EXISTS (SELECT true FROM waiting AS w WHERE w.state = 2 AND hashtext(w.queue) = hashtext(v_queue))
    INTO v_lease, v_worker, v_due, v_looked, v_definitions, v_is_first
    FROM leases AS l
    WHERE l.id = p_lease AND l.expires_at > v_now;
    IF v_is_first AND (v_due IS NULL OR v_due > v_now) AND p_queue = p_claimed_queue
        AND (p_kind = p_claimed_kind OR p_kind = ANY (p_claimed_kinds))
        AND p_definitions = v_definitions AND p_claimed_definitions = v_definitions
    THEN
        v_seq := accept_started(
            v_now, p_id, p_queue, p_kind, p_payload, p_priority, p_spec, p_tags, p_call, v_lease, p_nonce, v_worker
        );
    END IF;
    IF v_seq IS NULL THEN
        RETURN QUERY
        SELECT c.*, e.o_answer
        FROM {jobs_enqueue_one}(
            p_definitions, p_id, p_queue, p_kind, p_payload, p_priority, p_spec, p_tags, p_call
        ) AS e
        -- Nothing is claimed where no lease is named.
        CROSS JOIN LATERAL {jobs_claim_one}(
            CASE WHEN e.o_answer = 'stored' THEN p_lease END, p_nonce, p_claimed_queue, p_claimed_kind, p_claimed_kinds, p_limit,
            p_bytes, p_move_max, p_moved_to, p_claimed_definitions, p_at_once
        ) AS c;
        RETURN;
    END IF;
    o_stored := 'stored'; o_answer := 'lost';
    IF v_seq > 0 THEN
        o_answer := 'job'; o_seq := v_seq; o_id := p_id; o_queue := p_queue; o_kind := p_kind; o_payload := p_payload;
        o_priority := p_priority; o_fence := 1; o_attempt := 1; o_stalls := 0; o_ambiguous := 0; o_backoff := 0;
        o_spec := p_spec; o_tags := p_tags; o_enqueued_at := v_now; o_due_at := v_now; o_claimed_at := v_now; o_form := 1;
        RETURN NEXT;
        -- What the last row says stands in these columns.
        o_answer := 'end'; o_seq := v_definitions; o_queue := NULL; o_kind := v_worker; o_payload := NULL; o_spec := NULL;
        o_tags := NULL; o_fence := 0; o_attempt := {looked} - v_looked; o_due_at := v_due - v_now;
    END IF;
    RETURN NEXT;
END
$$;
