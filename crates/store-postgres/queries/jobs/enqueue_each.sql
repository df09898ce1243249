-- Accepts jobs some of whose ids may be taken: the long way in, and the one within somebody else's transaction,
-- which a refusal must not abort.
--
-- p_definitions   the version of the queues' definitions by which the caller has checked the payloads
-- p_fits          whether the payload of the job is within its cap
-- p_ids           ascending, the order in which rows are locked everywhere
-- p_places        the place of each job (from 1) in the order of acceptance
-- p_*             one element per job; p_delays and p_times are NULL for now
-- p_calls         the call, which is remembered with its jobs; none if it is never repeated
-- result          one row per job: 'new', 'known' with its state, 'taken' by another job, 'large'; or one row 'stale'
--                 when the definitions have changed, or 'repeated' when the call is known. Nothing is stored when a row
--                 says 'taken', 'large', 'stale' or 'repeated'.
CREATE FUNCTION {function}(
    p_definitions int8, p_ids uuid[], p_places int8[], p_queues text[], p_kinds text[], p_payloads bytea[], p_priorities int8[],
    p_delays int8[], p_times int8[], p_expiries int8[], p_specs text[],
    p_tags text[], p_calls uuid[], p_fits int8[]
) RETURNS TABLE (o_answer text, o_state int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
    v_known record;
    v_is_known bool;
    v_answers text[] := '{}';
    v_states int8[] := '{}';
    v_new int8[] := '{}';
    v_seqs int8[];
    v_seq int8;
    v_state int8;
    v_due int8;
BEGIN
    IF p_definitions <> (SELECT value FROM settings WHERE name = 'definitions') THEN
        RETURN QUERY SELECT 'stale', NULL::int8;
        RETURN;
    END IF;
    -- Waits for the first one of two that came at once.
    INSERT INTO calls (id, accepted_at) SELECT c.id, v_now FROM unnest(p_calls) AS c (id) ON CONFLICT (id) DO NOTHING;
    IF NOT found AND cardinality(p_calls) > 0 THEN
        RETURN QUERY SELECT 'repeated', NULL::int8;
        RETURN;
    END IF;
    SELECT array_agg(nextval('jobs_seq_seq')) INTO v_seqs FROM generate_series(1, cardinality(p_ids));
    FOR i IN 1 .. cardinality(p_ids) LOOP
        v_seq := NULL;
        v_due := greatest(v_now, coalesce(p_times[i], later(v_now, p_delays[i])));
        -- A job that stands in the way may be gone before it is looked at: then there is room after all.
        FOR round IN 1 .. 100 LOOP
            IF p_fits[i] = 1 THEN
                INSERT INTO jobs (
                    seq, id, enqueued_at, due_at, expires_at, priority, queue, kind, spec, tags, payload
                )
                VALUES (
                    v_seqs[p_places[i]], p_ids[i], v_now, v_due, later(v_now, p_expiries[i]),
                    p_priorities[i]::int2, p_queues[i], p_kinds[i], p_specs[i], p_tags[i], p_payloads[i]
                )
                ON CONFLICT (id) DO NOTHING
                RETURNING seq INTO v_seq;
            END IF;
            EXIT WHEN v_seq IS NOT NULL;
            SELECT
                j.queue = p_queues[i] AND j.kind = p_kinds[i] AND j.payload = p_payloads[i] AS is_same,
                coalesce(w.state, CASE WHEN r.seq IS NOT NULL THEN 3 END, e.state) AS state
            INTO v_known
            FROM jobs AS j
            LEFT JOIN waiting AS w ON w.seq = ANY (ARRAY[j.seq])
            LEFT JOIN running AS r ON r.seq = ANY (ARRAY[j.seq])
            LEFT JOIN ended AS e ON e.seq = ANY (ARRAY[j.seq])
            WHERE j.id = p_ids[i];
            v_is_known := found;
            EXIT WHEN v_is_known OR p_fits[i] <> 1;
        END LOOP;
        IF v_seq IS NOT NULL THEN
            v_state := CASE WHEN v_due > v_now THEN 1 ELSE 2 END;
            INSERT INTO waiting (
                seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind
            )
            VALUES (
                v_seq, v_due, later(v_now, p_expiries[i]), 0, 0, 0, 0, 0, octet_length(p_payloads[i]), v_state,
                p_priorities[i]::int2, p_queues[i], p_kinds[i]
            );
            v_new := v_new || v_seq;
            v_answers := v_answers || 'new'::text;
            v_states := v_states || v_state;
            CONTINUE;
        END IF;
        v_answers := v_answers || CASE
            WHEN NOT v_is_known THEN 'large'
            WHEN v_known.is_same THEN 'known'
            ELSE 'taken'
        END::text;
        v_states := v_states || CASE WHEN v_is_known THEN v_known.state END::int8;
    END LOOP;
    IF v_answers && ARRAY['large', 'taken'] THEN
        -- Nobody else has seen them.
        DELETE FROM waiting WHERE seq = ANY (v_new);
        DELETE FROM jobs WHERE seq = ANY (v_new);
        DELETE FROM calls WHERE id = ANY (p_calls);
    ELSE
        INSERT INTO counts (queue, scheduled, ready)
        SELECT w.queue, count(*) FILTER (WHERE w.state = 1), count(*) FILTER (WHERE w.state = 2)
        FROM waiting AS w
        WHERE w.seq = ANY (v_new)
        GROUP BY w.queue;
    END IF;
    RETURN QUERY SELECT a.answer, a.state FROM unnest(v_answers, v_states) AS a (answer, state);
END
$$;
