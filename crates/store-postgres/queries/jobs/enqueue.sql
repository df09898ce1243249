-- Accepts jobs whose ids are all new, as nearly always; which makes this the short way in.
--
-- p_definitions   the version of the queues' definitions by which the caller has checked the payloads
-- p_ids           ascending, the order in which rows are locked everywhere
-- p_places        the place of each job (from 1) in the order of acceptance
-- p_*             one element per job; p_delays and p_times are NULL for now
-- p_call          the call, which is remembered with its jobs
-- result          'stored', or 'stale' when the definitions have changed and nothing was stored; a call or an id that is
--                 not new raises unique_violation, which is cheaper than to look first
CREATE FUNCTION {function}(
    p_definitions int8, p_ids uuid[], p_places int8[], p_queues text[], p_kinds text[], p_payloads bytea[], p_priorities int8[],
    p_delays int8[], p_times int8[], p_expiries int8[], p_specs text[],
    p_tags text[], p_call uuid
) RETURNS TABLE (o_answer text)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
    v_seqs int8[];
BEGIN
    IF p_definitions <> (SELECT value FROM settings WHERE name = 'definitions') THEN
        RETURN QUERY SELECT 'stale';
        RETURN;
    END IF;
    -- Before its jobs: a repeat waits here until the first one has ended.
    INSERT INTO calls (id, accepted_at) VALUES (p_call, v_now);
    IF cardinality(p_ids) = 1 THEN
        v_seqs := ARRAY[nextval('jobs_seq_seq')];
    ELSE
        SELECT array_agg(nextval('jobs_seq_seq')) INTO v_seqs FROM generate_series(1, cardinality(p_ids));
    END IF;
    WITH job AS (
        INSERT INTO jobs (
            seq, id, enqueued_at, due_at, expires_at, priority, queue, kind, spec, tags, payload
        )
        SELECT
            v_seqs[a.place], a.id, v_now, greatest(v_now, coalesce(a.time, later(v_now, a.delay))), later(v_now, a.expiry),
            a.priority::int2, a.queue, a.kind, a.spec, a.tags, a.payload
        FROM unnest(
            p_ids, p_places, p_queues, p_kinds, p_payloads, p_priorities, p_delays, p_times, p_expiries, p_specs, p_tags
        ) AS a (id, place, queue, kind, payload, priority, delay, time, expiry, spec, tags)
        RETURNING seq, queue, kind, priority, due_at, expires_at, octet_length(payload) AS size
    ), entry AS (
        INSERT INTO waiting (
            seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind
        )
        SELECT
            j.seq, j.due_at, j.expires_at, 0, 0, 0, 0, 0, j.size,
            CASE WHEN j.due_at > v_now THEN 1 ELSE 2 END, j.priority, j.queue, j.kind
        FROM job AS j
    ), count AS (
        INSERT INTO counts (queue, scheduled, ready)
        SELECT j.queue, count(*) FILTER (WHERE j.due_at > v_now), count(*) FILTER (WHERE j.due_at <= v_now)
        FROM job AS j
        GROUP BY j.queue
    )
    SELECT 'stored' INTO o_answer;
    RETURN NEXT;
END
$$;
