-- Writes the outcomes of attempts of any kind, each only if its fence still holds.
--
-- p_definitions  the version of the queues' definitions by which the caller has cut errors and decided what is kept
-- p_right        'fence': the worker itself; 'lost': a reaper, for attempts whose lease has run out
-- p_ids          ascending and without repeats of an attempt, the order in which rows are locked everywhere
-- p_delays       how long until the job may start again; NULL: it keeps its place
-- p_dropped      the states, as bits, of which the job's queue keeps none
-- A reaper leaves the nonce with a job that it puts back, for the outcome that may still come; see late.
--
-- result         one row 'stale' when the definitions have changed; else one row per applied outcome: its place
--                (from 1) and the job's state now
CREATE FUNCTION {function}(
    p_definitions int8, p_right text, p_ids uuid[], p_queues text[], p_fences int8[], p_nonces int8[], p_states int8[],
    p_delays int8[], p_attempts int8[], p_stalls int8[], p_ambiguous int8[], p_backoffs int8[], p_reasons text[],
    p_endings text[], p_errors text[], p_outputs bytea[], p_dropped int8[]
) RETURNS TABLE (o_answer text, o_place int8, o_state int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8;
    v_definitions int8;
    v_free int8[];
BEGIN
    SELECT value, clock_micros() INTO v_definitions, v_now FROM settings WHERE name = 'definitions';
    IF p_definitions <> v_definitions THEN
        RETURN QUERY SELECT 'stale', NULL::int8, NULL::int8;
        RETURN;
    END IF;
    IF p_right = 'lost' THEN
        -- The handler of a lost worker may have left a transaction open that completes its job. Nobody else's job
        -- waits for that.
        SELECT array_agg(f.seq) INTO v_free
        FROM (
            SELECT r.seq
            FROM unnest(p_ids) AS a (id)
            JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
            JOIN running AS r ON r.seq = ANY (ARRAY[j.seq])
            FOR UPDATE OF r SKIP LOCKED
        ) AS f;
    END IF;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM running AS r
        USING
            (
                SELECT
                    i::int8 AS place, p_ids[i] AS id, p_queues[i] AS queue, p_fences[i] AS fence, p_nonces[i] AS nonce,
                    p_states[i] AS state, p_delays[i] AS delay, p_attempts[i] AS attempt, p_stalls[i] AS stalls,
                    p_ambiguous[i] AS ambiguous, p_backoffs[i] AS backoff, p_reasons[i] AS reason, p_endings[i] AS ending,
                    p_errors[i] AS error, p_outputs[i] AS output, p_dropped[i] AS dropped
                FROM (SELECT generate_series(1, cardinality(p_ids)) AS i) AS n
                OFFSET 0
            ) AS a
        JOIN jobs AS j ON j.id = ANY (ARRAY[a.id])
        WHERE (p_right = 'fence' OR j.seq = ANY (v_free)) AND r.seq = ANY (ARRAY[j.seq]) AND r.fence = a.fence AND r.nonce = a.nonce
            -- A name that does not read is called so by those who set the job aside; see Name::unreadable in the core.
            AND (j.queue = a.queue OR a.queue = 'unreadable' AND j.queue !~ '^[A-Za-z0-9_.:-]{1,128}$')
            AND (
                p_right = 'fence'
                OR NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.key = r.lease AND l.expires_at > v_now)
            )
        RETURNING
            r.seq, r.fence, CASE WHEN p_right = 'lost' THEN r.nonce END AS nonce, r.claimed_at, r.worker, r.progress, r.attempt AS number,
            j.queue, j.key, coalesce('#' || j.key, j.kind) AS kind,
            CASE WHEN j.key IS NOT NULL THEN j.kind END AS of_kind, j.priority, j.expires_at, octet_length(j.payload) AS size,
            -- A request to cancel wins over going back; see Transition::honoring_cancel in the core.
            CASE WHEN r.cancel AND a.state < 4 THEN 6 ELSE a.state END AS state,
            CASE WHEN r.cancel AND a.state < 4 THEN 'requested' ELSE a.reason END AS reason,
            CASE WHEN a.state < 4 AND NOT r.cancel THEN coalesce(later(v_now, a.delay), r.due_at) ELSE r.due_at END AS due_at,
            a.attempt, a.stalls, a.ambiguous, a.backoff, a.ending, a.error, a.output, a.dropped, a.place
    ), back AS (
        INSERT INTO waiting (
            seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind, of_kind,
            progress, nonce
        )
        SELECT
            seq, due_at, expires_at, fence, backoff, attempt, stalls, ambiguous, size, state, priority, queue, kind, of_kind,
            progress, nonce
        FROM gone
        WHERE state < 4
    ), done AS (
        INSERT INTO ended (
            seq, finished_at, due_at, fence, backoff, claimed_at, attempt, stalls, ambiguous, state, queue, worker, reason,
            output, progress
        )
        SELECT
            seq, v_now, due_at, fence, backoff, claimed_at, attempt, stalls, ambiguous, state, queue, worker, reason,
            output, progress
        FROM gone
        WHERE state >= 4 AND dropped & (1 << state::int4) = 0
    ), record AS (
        INSERT INTO attempts (seq, fence, number, started_at, ended_at, worker, ending, error)
        SELECT seq, fence, number, claimed_at, v_now, worker, ending, error
        FROM gone
        WHERE ending <> 'completed' AND (state < 4 OR dropped & (1 << state::int4) = 0)
    ), surplus AS (
        DELETE FROM attempts AS t USING gone AS g WHERE g.fence > 50 AND t.seq = ANY (ARRAY[g.seq]) AND t.fence <= g.fence - 50
    ), removed AS (
        DELETE FROM jobs AS j
        USING gone AS g
        WHERE g.state >= 4 AND g.dropped & (1 << g.state::int4) <> 0 AND j.seq = ANY (ARRAY[g.seq])
    ), forgotten AS (
        DELETE FROM attempts AS t
        USING gone AS g
        WHERE g.state >= 4 AND g.dropped & (1 << g.state::int4) <> 0 AND g.fence > 1 AND t.seq = ANY (ARRAY[g.seq])
            AND t.fence > g.fence - 50
    ), tally AS (
        INSERT INTO tallied (minute, times, cell, queue, kind)
        SELECT
            v_now / 60000000 * 60000000, count(*),
            32 * tally_count(g.state, g.reason, g.ending) + tally_bucket(v_now - g.claimed_at), g.queue, coalesce(g.of_kind, g.kind)
        FROM gone AS g
        GROUP BY 3, 4, 5
    )
    SELECT 'done', p.place, m.state
    FROM (
        SELECT
            k.state, array_agg(k.place) AS places,
            moves(NULL, 3, k.state, k.reason, array_agg(k.seq), k.is_kept, array_agg(k.queue::text), array_agg(k.key::text), NULL, true)
        FROM (SELECT g.*, g.dropped & (1 << g.state::int4) = 0 AS is_kept FROM gone AS g) AS k
        GROUP BY k.state, k.reason, k.is_kept
    ) AS m
    CROSS JOIN LATERAL unnest(m.places) AS p (place);
END
$$;
