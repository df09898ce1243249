-- Hands out jobs of one queue under a lease, as most claims do: the short form of jobs/claim, with the same result. It leaves
-- a claim to that where something has expired or is due, where the jobs have more bytes than are asked for, and where the
-- definitions have changed, for then the queue may use rules. The caller knows that it does not.
--
-- p_definitions  the version of the queues' definitions by which the caller knows that the queue has no rules
-- p_kind      the only kind; NULL: p_kinds
-- p_limit     how many jobs, p_bytes how many bytes of payload; the first job is taken whatever its size
-- p_move_max, p_moved_to, p_at_once  as in jobs/claim
CREATE FUNCTION {function}(
    p_lease uuid, p_nonce int8, p_queue text, p_kind text, p_kinds text[], p_limit int8, p_bytes int8, p_move_max int8,
    p_moved_to int8, p_definitions int8, p_at_once int8
) RETURNS TABLE (
    o_answer text, o_seq int8, o_id uuid, o_queue text, o_kind text, o_payload bytea, o_priority int2, o_fence int8,
    o_attempt int8, o_stalls int8, o_ambiguous int8, o_backoff int8, o_spec text,
    o_tags text, o_enqueued_at int8, o_due_at int8, o_claimed_at int8, o_form int8
)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_queue ALIAS FOR p_queue; v_moved_to ALIAS FOR p_moved_to;
    -- The kind that is looked for; NULL: several of p_kinds have jobs.
    v_kind text := p_kind;
    v_now int8 := clock_micros(); v_lease int8; v_worker text; v_expires_at int8; v_is_late bool; v_due int8;
    -- What is taken.
    v_places tid[]; v_jobs int8[]; v_bytes int8; v_counted text[];
    v_seen int8;
BEGIN
    -- What the last row says stands in its columns from here on.
    SELECT
        'end', l.key, l.worker, l.worker, ({late}), ({next}), {looked},
        pg_stat_get_xact_tuples_fetched('waiting_ready'::regclass), 0, 0, 0
    INTO
        o_answer, v_lease, v_worker, o_kind, v_is_late, v_due, o_attempt, v_seen, o_fence, o_stalls, o_ambiguous
    FROM leases AS l
    WHERE l.id = p_lease AND l.expires_at > v_now;
    IF v_lease IS NULL THEN
        o_answer := 'lost';
        RETURN NEXT;
        RETURN;
    END IF;
    IF p_kind IS NULL AND cardinality(p_kinds) <= 8 THEN
        -- Of a few kinds mostly one has ready jobs, or none, as where a worker has one handler beside the kinds of the engine.
        SELECT CASE WHEN count(*) < 2 THEN coalesce(min(k.v_kind), p_kinds[1]) END INTO v_kind
        FROM unnest(p_kinds) AS k (v_kind)
        CROSS JOIN LATERAL (
            {ready}
            LIMIT 1
        ) AS l;
        v_seen := pg_stat_get_xact_tuples_fetched('waiting_ready'::regclass);
    END IF;
    IF v_is_late OR v_due <= v_now THEN
        v_bytes := NULL;
    ELSIF v_kind IS NOT NULL THEN
        SELECT
            array_agg(l.ctid), array_agg(l.seq), coalesce(sum(l.size), 0),
            (count(*) < least(p_limit, pg_stat_get_xact_tuples_fetched('waiting_ready'::regclass) - v_seen))::int4
        INTO v_places, v_jobs, v_bytes, o_stalls
        FROM (
            {ready}
            {turn}
            LIMIT p_limit
            FOR UPDATE SKIP LOCKED
        ) AS l;
    ELSE
        SELECT c.o_places, c.o_jobs, c.o_bytes, c.o_met_locked::int4 INTO v_places, v_jobs, v_bytes, o_stalls
        FROM {jobs_choose}(v_now, p_queue, p_kinds, p_limit, 0, '{}', '{}', '{}') AS c;
    END IF;
    IF v_places IS NOT NULL THEN
        -- Calls that end the lease wait for this claim, or this claim for them. Not before there is something to take:
        -- a look that finds nothing writes nothing. By a time that is read after the wait.
        SELECT l.expires_at, (SELECT value FROM settings WHERE name = 'definitions') INTO v_expires_at, o_seq
        FROM leases AS l
        WHERE l.key = v_lease
        FOR KEY SHARE OF l;
        IF v_expires_at IS NULL OR v_expires_at <= clock_micros() THEN
            o_answer := 'lost';
            RETURN NEXT;
            RETURN;
        END IF;
    ELSIF (SELECT value FROM settings WHERE name = 'rules') > 0 THEN
        -- Rules also say when to come back.
        o_seq := (SELECT value FROM settings WHERE name = 'definitions');
    END IF;
    IF v_bytes IS NULL OR v_bytes > p_bytes OR o_seq <> p_definitions THEN
        RETURN QUERY
        SELECT *
        FROM {jobs_claim}(
            p_lease, p_nonce, ARRAY[p_queue], ARRAY[p_limit], CASE WHEN p_kind IS NULL THEN p_kinds ELSE ARRAY[p_kind] END,
            p_limit, p_bytes, p_move_max, ARRAY[p_moved_to], '{}', '{}', '{}', p_at_once
        );
        RETURN;
    END IF;
    IF v_places IS NOT NULL THEN
        RETURN QUERY
        {take};
        v_bytes := moves(p_queue, 2, 3, NULL, v_jobs, p_is_counted => true);
    END IF;
    o_claimed_at := v_now;
    o_attempt := {looked} - o_attempt;
    o_due_at := v_due - v_now;
    RETURN NEXT;
END
$$;
