-- A part of the claim: writes which jobs have passed the gates of a queue, and what becomes of the gates that were asked. The
-- definition of the queue is locked.
--
-- p_keys, p_weights, p_given  of each gate its key, its weight and how many jobs it gave
-- p_jobs, p_gates  of each job its number, and the place of its gate
-- p_taken          jobs that passed before in this claim
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_config text, p_keys text[], p_weights int8[], p_given int8[], p_jobs int8[], p_gates int8[],
    p_taken int8[]
) RETURNS TABLE (o_gates int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_rules record;
    v_taken int8[] := p_taken || p_jobs;
BEGIN
    SELECT r.* INTO v_rules FROM {queues_key_rules}(p_config) AS r;
    IF cardinality(p_jobs) > 0 THEN
        INSERT INTO gate_jobs (seq, queue, key)
        SELECT j.seq, p_queue, p_keys[j.gate] FROM unnest(p_jobs, p_gates) AS j (seq, gate);
        IF v_rules.o_jobs IS NOT NULL THEN
            PERFORM 1
            FROM {jobs_spend_keys}(p_now, p_queue, p_keys, p_given, v_rules.o_per, v_rules.o_shape, v_rules.o_step);
        END IF;
    END IF;
    -- No ready job is left behind it: it is forgotten. One that comes at this moment leaves a note.
    WITH asked AS MATERIALIZED (
        SELECT
            p_queue AS queue, a.key, a.given * ({turn_cost} / least(a.weight, {weight_max})) AS cost, g.o_open_at AS open_at,
            EXISTS (SELECT 1 FROM waiting AS w WHERE {line} AND w.seq <> ALL (v_taken)) AS is_kept
        FROM unnest(p_keys, p_weights, p_given) AS a (key, weight, given)
        CROSS JOIN LATERAL {jobs_gate}(
            p_now, p_queue, a.key, v_rules.o_concurrency, v_rules.o_jobs, v_rules.o_burst, v_rules.o_step,
            v_rules.o_pauses -> a.key
        ) AS g
    ), gone AS (
        DELETE FROM gates AS g
        USING asked AS a
        WHERE g.queue = ANY (ARRAY[a.queue]) AND g.key = ANY (ARRAY[a.key]) AND NOT a.is_kept
    )
    UPDATE gates AS g
    SET turn = g.turn + a.cost, open_at = a.open_at
    FROM asked AS a
    WHERE g.queue = ANY (ARRAY[a.queue]) AND g.key = ANY (ARRAY[a.key]) AND a.is_kept AND (a.cost > 0 OR a.open_at > 0);
    GET DIAGNOSTICS o_gates = ROW_COUNT;
    RETURN NEXT;
END
$$;
