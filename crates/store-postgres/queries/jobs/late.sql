-- Writes the ends of attempts that a reaper has taken back, each only if nothing has happened to its job since: it waits
-- under the number and the nonce of that attempt.
--
-- p_definitions  the version of the queues' definitions by which the caller has cut errors and decided what is kept
-- p_ids          ascending and without repeats of an attempt, the order in which rows are locked everywhere
-- p_states       terminal ones
-- p_dropped      the states, as bits, of which the job's queue keeps none
-- result         one row 'stale' when the definitions have changed; else one row per applied outcome: its place
--                (from 1) and the job's state now
CREATE FUNCTION {function}(
    p_definitions int8, p_ids uuid[], p_queues text[], p_fences int8[], p_nonces int8[], p_states int8[], p_attempts int8[],
    p_stalls int8[], p_ambiguous int8[], p_backoffs int8[], p_reasons text[], p_endings text[], p_errors text[],
    p_outputs bytea[], p_dropped int8[]
) RETURNS TABLE (o_answer text, o_place int8, o_state int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
BEGIN
    IF p_definitions <> (SELECT value FROM settings WHERE name = 'definitions') THEN
        RETURN QUERY SELECT 'stale', NULL::int8, NULL::int8;
        RETURN;
    END IF;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM waiting AS w
        USING
            unnest(
                p_ids, p_queues, p_fences, p_nonces, p_states, p_attempts, p_stalls, p_ambiguous, p_backoffs, p_reasons,
                p_endings, p_errors, p_outputs, p_dropped
            ) WITH ORDINALITY AS a (
                id, queue, fence, nonce, state, attempt, stalls, ambiguous, backoff, reason, ending, error, output, dropped,
                place
            )
        JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
        WHERE w.seq = ANY (ARRAY[j.seq]) AND w.fence = a.fence AND w.nonce = a.nonce AND j.queue = a.queue
        RETURNING
            w.seq, w.fence, w.due_at, w.progress, w.state AS state_before, w.attempt AS number, a.queue, j.kind, a.state, a.attempt,
            a.stalls, a.ambiguous, a.backoff, a.reason, a.ending, a.error, a.output, a.place,
            a.dropped & (1 << a.state::int4) = 0 AS is_kept
    ), known AS MATERIALIZED (
        -- The record that the reaper wrote has who began it, and when.
        SELECT g.*, t.started_at, t.worker
        FROM gone AS g
        LEFT JOIN attempts AS t ON t.seq = ANY (ARRAY[g.seq]) AND t.fence = g.fence AND NOT t.late
    ), done AS (
        INSERT INTO ended (
            seq, finished_at, due_at, fence, backoff, claimed_at, attempt, stalls, ambiguous, state, queue, worker, reason,
            output, progress
        )
        SELECT
            seq, v_now, due_at, fence, backoff, started_at, attempt, stalls, ambiguous, state, queue, worker, reason, output,
            progress
        FROM known
        WHERE is_kept
    ), record AS (
        INSERT INTO attempts (seq, fence, number, started_at, ended_at, worker, ending, error, late)
        SELECT seq, fence, number, started_at, v_now, worker, ending, error, true
        FROM known
        WHERE ending <> 'completed' AND is_kept AND started_at IS NOT NULL
    ), removed AS (
        DELETE FROM jobs AS j USING gone AS g WHERE NOT g.is_kept AND j.seq = ANY (ARRAY[g.seq])
    ), forgotten AS (
        DELETE FROM attempts AS t USING gone AS g WHERE NOT g.is_kept AND t.seq = ANY (ARRAY[g.seq])
    ), tally AS (
        INSERT INTO tallied (minute, times, cell, queue, kind)
        SELECT
            v_now / 60000000 * 60000000, count(*),
            32 * tally_count(k.state, k.reason, NULL) + coalesce(tally_bucket(v_now - k.started_at), 31), k.queue, k.kind
        FROM known AS k
        GROUP BY 3, 4, 5
    )
    SELECT 'done', p.place, m.state
    FROM (
        SELECT
            g.state, array_agg(g.place) AS places,
            moves(NULL, g.state_before, g.state, g.reason, array_agg(g.seq), g.is_kept, array_agg(g.queue), NULL, NULL, true)
        FROM gone AS g
        GROUP BY g.state_before, g.state, g.reason, g.is_kept
    ) AS m
    CROSS JOIN LATERAL unnest(m.places) AS p (place);
END
$$;
