-- A part of the claim: writes which jobs have passed the gates of a queue, and what becomes of the gates that were asked. The
-- definition of the queue is locked, so the gates are where they were.
--
-- p_at, p_keys, p_weights, p_given  of each gate where it is, its key, its weight and how many jobs it gave
-- p_kept           and whether jobs are left behind it; NULL: that is not known
-- p_untils, p_free, p_permits       what its rules left before, as in jobs/claim/room
-- p_jobs, p_gates  of each job its number, and the place of its gate
-- p_taken          jobs that passed before in this claim
-- p_rate and what follows  of the rate, as in queues/key_rules
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_at tid[], p_keys text[], p_weights int8[], p_given int8[], p_kept bool[], p_untils int8[],
    p_free int8[], p_permits int8[], p_jobs int8[], p_gates int8[], p_taken int8[], p_rate int8, p_per int8, p_shape text, p_burst int8,
    p_step int8
) RETURNS TABLE (o_gates int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_taken int8[] := p_taken || p_jobs;
BEGIN
    IF cardinality(p_jobs) > 0 THEN
        INSERT INTO gate_jobs (seq, queue, key)
        SELECT j.seq, p_queue, p_keys[j.gate] FROM unnest(p_jobs, p_gates) AS j (seq, gate);
        IF p_rate IS NOT NULL THEN
            PERFORM 1 FROM {jobs_spend_keys}(p_now, p_queue, p_keys, p_given, p_per, p_shape, p_step);
        END IF;
    END IF;
    -- No ready job is left behind it: it is forgotten. One that comes at this moment leaves a note.
    WITH asked AS MATERIALIZED (
        SELECT
            a.at, a.given * ({turn_cost} / least(a.weight, {weight_max})) AS cost,
            CASE
                WHEN a.until IS NOT NULL THEN a.until
                WHEN a.free = a.given THEN 9223372036854775807
                WHEN a.permits = a.given THEN
                    coalesce(
                        (SELECT p.o_more_at FROM {queues_key_permits}(p_now, p_queue, a.key, p_rate, p_burst, p_step) AS p),
                        9223372036854775807
                    )
                ELSE 0
            END AS open_at,
            -- One row by its place in the line: whether there is any could be asked by reading all that is ready.
            coalesce(a.kept, (
                SELECT true FROM waiting AS w
                WHERE {line} AND w.seq NOT IN (SELECT t.seq FROM unnest(v_taken) AS t (seq))
                {turn}
                LIMIT 1
            ), false) AS is_kept
        FROM unnest(p_at, p_keys, p_weights, p_given, p_kept, p_untils, p_free, p_permits)
            AS a (at, key, weight, given, kept, until, free, permits)
    ), gone AS (
        DELETE FROM gates AS g USING asked AS a WHERE g.ctid = a.at AND NOT a.is_kept
    )
    UPDATE gates AS g
    SET turn = g.turn + a.cost, open_at = a.open_at
    FROM asked AS a
    WHERE g.ctid = a.at AND a.is_kept AND (a.cost > 0 OR a.open_at > 0);
    GET DIAGNOSTICS o_gates = ROW_COUNT;
    RETURN NEXT;
END
$$;
