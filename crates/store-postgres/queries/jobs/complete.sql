-- Ends attempts that completed without output and never stalled or failed before, as most do.
--
-- p_definitions  the version of the queues' definitions by which the caller has decided what is kept
-- p_ids          ascending and without repeats of an attempt, the order in which rows are locked everywhere
-- p_keep         1: the ended job is kept, 0: it is removed
-- result         one row 'stale' when the definitions have changed; else one row 'done' with the places (from 1) of
--                those that were applied, or NULL when all were
CREATE FUNCTION {function}(
    p_definitions int8, p_ids uuid[], p_queues text[], p_fences int8[], p_nonces int8[], p_attempts int8[],
    p_keep int8
) RETURNS TABLE (o_answer text, o_places int8[])
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
    v_places int8[];
BEGIN
    IF p_definitions <> (SELECT value FROM settings WHERE name = 'definitions') THEN
        RETURN QUERY SELECT 'stale', NULL::int8[];
        RETURN;
    END IF;
    IF p_keep = 1 THEN
        WITH gone AS (
            DELETE FROM running AS r
            USING
                unnest(p_ids, p_queues, p_fences, p_nonces, p_attempts)
                WITH ORDINALITY AS a (id, queue, fence, nonce, attempt, place)
            JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
            WHERE r.seq = ANY (ARRAY[j.seq]) AND r.fence = a.fence AND r.nonce = a.nonce AND j.queue = a.queue
            RETURNING r.seq, r.due_at, r.fence, r.claimed_at, r.worker, r.progress, a.attempt, a.queue, a.place
        ), done AS (
            INSERT INTO ended (
                seq, finished_at, due_at, fence, backoff, claimed_at, attempt, stalls, ambiguous, state, queue, worker,
                progress
            )
            SELECT
                seq, v_now, due_at, fence, 0, claimed_at, attempt, 0, 0, 4, queue, worker, progress
            FROM gone
        )
        SELECT array_agg(p.place) INTO v_places
        FROM (
            SELECT moves(g.queue, 3, 4, NULL, array_agg(g.seq)), array_agg(g.place) AS places
            FROM gone AS g
            GROUP BY g.queue
        ) AS m
        CROSS JOIN LATERAL unnest(m.places) AS p (place);
    ELSE
        WITH gone AS (
            DELETE FROM running AS r
            USING unnest(p_ids, p_queues, p_fences, p_nonces) WITH ORDINALITY AS a (id, queue, fence, nonce, place)
            JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
            WHERE r.seq = ANY (ARRAY[j.seq]) AND r.fence = a.fence AND r.nonce = a.nonce AND j.queue = a.queue
            RETURNING r.seq, r.fence, a.queue, a.place, j.ctid AS job
        ), removed AS (
            -- Nobody changes a job that runs, so it is where it was.
            DELETE FROM jobs AS j USING gone AS g WHERE j.ctid = g.job
        ), forgotten AS (
            DELETE FROM attempts AS t USING gone AS g WHERE t.seq = ANY (ARRAY[g.seq]) AND g.fence > 1
        )
        SELECT array_agg(p.place) INTO v_places
        FROM (
            SELECT moves(g.queue, 3, 4, NULL, array_agg(g.seq), false), array_agg(g.place) AS places
            FROM gone AS g
            GROUP BY g.queue
        ) AS m
        CROSS JOIN LATERAL unnest(m.places) AS p (place);
    END IF;
    RETURN QUERY SELECT
        'done', CASE WHEN cardinality(v_places) = cardinality(p_ids) THEN NULL ELSE coalesce(v_places, '{}') END;
END
$$;
