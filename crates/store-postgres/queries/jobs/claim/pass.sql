-- A part of the claim: writes which jobs have passed the gates of a queue, and what becomes of the gates that were asked. The
-- definition of the queue is locked, so the gates are where they were.
--
-- p_turn           of gates that are not written yet
-- p_at, p_keys, p_weights, p_given  of each gate where it is (NULL: it is not written yet), its key, its weight and how many jobs
--                  it gave
-- p_kept           and whether jobs are left behind it; NULL: that is not known
-- p_untils, p_free, p_permits       what its rules left before, as in jobs/claim/room
-- p_jobs, p_gates  of each job its number, and the place of its gate
-- p_is_counted     whether they count for their keys, since a concurrency is to be held
-- p_taken          jobs that passed before in this claim
-- p_rate and what follows  of the rate, as in queues/key_rules
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_turn int8, p_at tid[], p_keys text[], p_weights int8[], p_given int8[], p_kept bool[], p_untils int8[],
    p_free int8[], p_permits int8[], p_jobs int8[], p_gates int8[], p_is_counted bool, p_taken int8[], p_rate int8, p_per int8, p_shape text, p_burst int8,
    p_step int8
) RETURNS TABLE (o_gates int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_taken int8[] := p_taken || p_jobs;
    -- Where gates are that are forgotten, and those that stay open and gave one job of weight 1; the others.
    v_gone tid[]; v_plain tid[]; v_at tid[]; v_costs int8[]; v_opens int8[];
    v_keys text[]; v_new_costs int8[]; v_new_opens int8[];
BEGIN
    IF p_is_counted AND cardinality(p_jobs) > 0 THEN
        INSERT INTO gate_jobs (seq, queue, key)
        SELECT j.seq, p_queue, p_keys[j.gate] FROM unnest(p_jobs, p_gates) AS j (seq, gate);
    END IF;
    IF p_rate IS NOT NULL AND cardinality(p_jobs) > 0 THEN
        PERFORM 1 FROM {jobs_spend_keys}(p_now, p_queue, p_keys, p_given, p_per, p_shape, p_step);
    END IF;
    -- No ready job is left behind it: it is forgotten. One that comes at this moment is told.
    SELECT
        array_agg(a.at) FILTER (WHERE NOT a.is_kept), array_agg(a.at) FILTER (WHERE a.is_kept AND a.is_plain),
        array_agg(a.at) FILTER (WHERE a.is_other), array_agg(a.cost) FILTER (WHERE a.is_other),
        array_agg(a.open_at) FILTER (WHERE a.is_other), array_agg(a.key) FILTER (WHERE a.is_new),
        array_agg(a.cost) FILTER (WHERE a.is_new), array_agg(a.open_at) FILTER (WHERE a.is_new)
    INTO v_gone, v_plain, v_at, v_costs, v_opens, v_keys, v_new_costs, v_new_opens
    FROM (
        SELECT
            a.*, a.cost = {turn_cost} AND a.open_at = 0 AS is_plain, a.is_kept AND a.at IS NULL AS is_new,
            a.is_kept AND (a.cost <> {turn_cost} OR a.open_at > 0) AS is_other
        FROM (
            SELECT
                a.at, a.key, a.given * ({turn_cost} / least(a.weight, {weight_max})) AS cost,
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
            OFFSET 0
        ) AS a
    ) AS a;
    IF v_gone IS NOT NULL THEN
        DELETE FROM gates WHERE ctid = ANY (v_gone);
    END IF;
    IF v_plain IS NOT NULL THEN
        UPDATE gates SET turn = turn + {turn_cost} WHERE ctid = ANY (v_plain);
    END IF;
    IF v_at IS NOT NULL THEN
        UPDATE gates AS g SET turn = g.turn + a.cost, open_at = a.open_at
        FROM unnest(v_at, v_costs, v_opens) AS a (at, cost, open_at)
        WHERE g.ctid = a.at AND (a.cost > 0 OR a.open_at > 0);
    END IF;
    IF v_keys IS NOT NULL THEN
        INSERT INTO gates (queue, key, turn, open_at)
        SELECT p_queue, k.key, p_turn + k.cost, k.open_at
        FROM unnest(v_keys, v_new_costs, v_new_opens) AS k (key, cost, open_at);
    END IF;
    o_gates := cardinality(p_at);
    RETURN NEXT;
END
$$;
