-- A part of the claim: writes which jobs have passed the gates of a queue, and what becomes of the gates that were asked. The
-- definition of the queue is locked, so the gates are where they were.
--
-- p_turn           of gates that are not written yet
-- p_forms, p_at, p_keys, p_turns, p_weights, p_given  of each gate as in jobs/claim/ask, and how many jobs it gave
-- p_kept           and whether jobs are left behind it; NULL: that is not known
-- p_untils, p_free, p_permits       what its rules left before, as in jobs/claim/room
-- p_runs, p_over   as in jobs/claim/runs
-- p_is_said        whether p_over has these as well:
-- p_rest           keys whose gates have come into being, and were not asked
-- p_jobs, p_gates  of each job its number, and the place of its gate
-- p_is_counted     whether they count for their keys, since a concurrency is to be held
-- p_taken          jobs that passed before in this claim
-- p_rate and what follows  of the rate, as in queues/key_rules
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_turn int8, p_forms int8[], p_at tid[], p_keys text[], p_turns int8[], p_weights int8[],
    p_given int8[], p_kept bool[], p_untils int8[], p_free int8[], p_permits int8[], p_runs tid[], p_over text[], p_is_said bool,
    p_rest text[],
    p_jobs int8[], p_gates int8[], p_is_counted bool, p_taken int8[], p_rate int8, p_per int8, p_shape text, p_burst int8, p_step int8
) RETURNS TABLE (o_gates int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_taken int8[] := p_taken || p_jobs;
    -- Gates that are forgotten, by where they are or by their keys.
    v_gone tid[]; v_gone_keys text[];
    -- Those that stay open; of these where rows are that have their turn, and the keys of those that are not written yet.
    v_open text[]; v_turns int8[]; v_loose tid[]; v_new text[];
    -- Those that are closed.
    v_shut text[]; v_shut_turns int8[]; v_until int8[];
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
        array_agg(a.at) FILTER (WHERE NOT a.is_kept AND a.form = 1), array_agg(a.key) FILTER (WHERE NOT a.is_kept AND a.form = 2),
        coalesce(array_agg(a.key) FILTER (WHERE a.is_open), '{}'), coalesce(array_agg(a.turn) FILTER (WHERE a.is_open), '{}'),
        array_agg(a.at) FILTER (WHERE a.is_open AND a.form = 1), array_agg(a.key) FILTER (WHERE a.is_open AND a.form = 0),
        array_agg(a.key) FILTER (WHERE a.is_shut), array_agg(a.turn) FILTER (WHERE a.is_shut),
        array_agg(a.open_at) FILTER (WHERE a.is_shut)
    INTO v_gone, v_gone_keys, v_open, v_turns, v_loose, v_new, v_shut, v_shut_turns, v_until
    FROM (
        SELECT a.*, a.is_kept AND a.open_at = 0 AS is_open, a.is_kept AND a.open_at > 0 AS is_shut
        FROM (
            SELECT
                a.form, a.at, a.key, a.turn + a.given * ({turn_cost} / least(a.weight, {weight_max})) AS turn,
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
            FROM unnest(p_forms, p_at, p_keys, p_turns, p_weights, p_given, p_kept, p_untils, p_free, p_permits)
                AS a (form, at, key, turn, weight, given, kept, until, free, permits)
            OFFSET 0
        ) AS a
    ) AS a;
    IF v_gone_keys IS NOT NULL THEN
        v_gone := v_gone || ARRAY(
            SELECT (SELECT g.ctid FROM gates AS g WHERE g.queue = p_queue AND g.key = k.key) FROM unnest(v_gone_keys) AS k (key)
        );
    END IF;
    IF v_gone IS NOT NULL THEN
        DELETE FROM gates WHERE ctid = ANY (v_gone);
    END IF;
    IF v_loose IS NOT NULL THEN
        UPDATE gates SET in_run = true WHERE ctid = ANY (v_loose);
    END IF;
    IF v_new IS NOT NULL OR p_rest <> '{}' THEN
        INSERT INTO gates (queue, key, turn, open_at, in_run)
        SELECT p_queue, k.key, p_turn, 0, true FROM unnest(v_new || p_rest) AS k (key);
    END IF;
    IF v_shut IS NOT NULL THEN
        INSERT INTO gates AS g (queue, key, turn, open_at, in_run)
        SELECT p_queue, k.key, k.turn, k.open_at, false FROM unnest(v_shut, v_shut_turns, v_until) AS k (key, turn, open_at)
        ON CONFLICT (key, queue) DO UPDATE SET turn = excluded.turn, open_at = excluded.open_at, in_run = false;
    END IF;
    p_rest := CASE WHEN p_is_said THEN '{}' ELSE p_rest END;
    IF p_runs <> '{}' OR v_open <> '{}' OR p_rest <> '{}' OR p_over <> '{}' THEN
        PERFORM 1
        FROM {jobs_runs}(
            p_queue, p_runs, p_keys, p_over, p_turns[1], v_open || p_rest,
            v_turns || CASE WHEN p_rest = '{}' THEN '{}' ELSE array_fill(p_turn, ARRAY[cardinality(p_rest)]) END,
            p_rest = '{}' AND p_turns[1] = p_turns[cardinality(p_turns)]
        );
    END IF;
    o_gates := cardinality(p_keys);
    RETURN NEXT;
END
$$;
