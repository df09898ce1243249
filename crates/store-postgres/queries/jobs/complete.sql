-- Ends attempts that completed without output and never stalled or failed before, as most do.
--
-- p_definitions  the version of the queues' definitions by which the caller has decided what is kept
-- p_ids          ascending and without repeats of an attempt, the order in which rows are locked everywhere
-- p_queues, p_fences, p_nonces, p_attempts  one element per attempt, or one for all
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
    v_now int8;
    v_definitions int8;
    v_jobs int8[];
    v_queues text[];
    v_keys text[];
BEGIN
    SELECT value, clock_micros() INTO v_definitions, v_now FROM settings WHERE name = 'definitions';
    IF p_definitions <> v_definitions THEN
        o_answer := 'stale';
        RETURN NEXT;
        RETURN;
    END IF;
    IF p_keep = 1 THEN
        WITH gone AS (
            {completed}
            RETURNING r.seq, r.due_at, r.fence, r.claimed_at, r.worker, r.progress, a.attempt, a.queue, j.kind, a.i::int8 AS place
        ), done AS (
            INSERT INTO ended (
                seq, finished_at, due_at, fence, backoff, claimed_at, attempt, stalls, ambiguous, state, queue, worker,
                progress
            )
            SELECT seq, v_now, due_at, fence, 0, claimed_at, attempt, 0, 0, 4, queue, worker, progress
            FROM gone
        ), tally AS (
            INSERT INTO tallied (minute, times, cell, queue, kind)
            SELECT v_now / 60000000 * 60000000, count(*), 64 + tally_bucket(v_now - g.claimed_at), g.queue, g.kind
            FROM gone AS g
            GROUP BY 3, 4, 5
        )
        SELECT array_agg(g.seq), array_agg(g.queue), array_agg(g.place) INTO v_jobs, v_queues, o_places FROM gone AS g;
    ELSE
        WITH gone AS (
            {completed}
            RETURNING r.seq, r.fence, r.claimed_at, a.queue, j.kind, a.i::int8 AS place, j.ctid AS job, j.key::text
        ), removed AS (
            -- No call changes a job that runs, so it is where it was.
            DELETE FROM jobs AS j USING gone AS g WHERE j.ctid = g.job
        ), forgotten AS (
            DELETE FROM attempts AS t USING gone AS g WHERE t.seq = ANY (ARRAY[g.seq]) AND g.fence > 1
        ), tally AS (
            INSERT INTO tallied (minute, times, cell, queue, kind)
            SELECT v_now / 60000000 * 60000000, count(*), 64 + tally_bucket(v_now - g.claimed_at), g.queue, g.kind
            FROM gone AS g
            GROUP BY 3, 4, 5
        )
        SELECT array_agg(g.seq), array_agg(g.queue), array_agg(g.place), array_agg(g.key)
        INTO v_jobs, v_queues, o_places, v_keys
        FROM gone AS g;
    END IF;
    IF v_jobs IS NOT NULL THEN
        v_now := moves(
            CASE WHEN cardinality(p_queues) = 1 THEN p_queues[1] END, 3, 4, NULL, v_jobs, p_keep = 1, v_queues,
            v_keys, p_is_counted => true
        );
    END IF;
    o_answer := 'done';
    o_places := CASE WHEN cardinality(o_places) = cardinality(p_ids) THEN NULL ELSE coalesce(o_places, '{}') END;
    RETURN NEXT;
END
$$;
