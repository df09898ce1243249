-- A part of the claim: one round over the gates of a queue. Asks the first open ones, locks what they give, and writes what
-- becomes of them. The definition of the queue is locked.
--
-- p_new       keys whose gates have come into being, with p_turn, and are not written yet: this is done here
-- p_want      how many jobs, p_gates how many gates
-- p_done      keys that are not asked again, p_taken jobs that were taken before
-- p_skipped   jobs that other calls had locked: those behind them have their turn
-- p_bytes, p_is_first  as in jobs/claim/heed
-- p_concurrency, p_jobs and what follows  as in queues/key_rules
-- p_worth, p_offset    as in jobs/claim/keyed
-- result      how many gates were chosen; which keys gave less than their part, though nothing stood in the way; jobs that other
--             calls had locked; whether the limits of a key are near; and as in jobs/claim/heed
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_new text[], p_turn int8, p_kinds text[], p_want int8, p_gates int8, p_done text[],
    p_taken int8[], p_skipped int8[], p_bytes int8, p_is_first bool, p_concurrency int8, p_jobs int8, p_per int8, p_shape text, p_burst int8, p_step int8,
    p_weights jsonb, p_pauses jsonb, p_worth int8, p_offset int8
) RETURNS TABLE (
    o_asked int8, o_done text[], o_skipped int8[], o_places tid[], o_jobs int8[], o_sizes int8[], o_bytes int8, o_met_locked bool,
    o_keys text[], o_is_near bool
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    -- By gate, in their order: where it is, and what its rules leave. NULL: they leave any number.
    v_forms int8[]; v_at tid[]; v_keys text[]; v_turns int8[]; v_runs tid[]; v_over text[]; v_is_said bool; v_rest text[];
    v_weights int8[]; v_weight int8; v_parts int8[]; v_mosts int8[]; v_untils int8[];
    v_free int8[]; v_permits int8[]; v_given int8[]; v_kept bool[]; v_reached int8;
    -- Whether each gate may give one job, as where there are many.
    v_are_single bool;
    -- By job: where it is, and the place of its gate.
    v_found tid[]; v_seqs int8[]; v_asked int8[]; v_asked_keys text[]; v_gates int8[]; v_count int8; v_fitting int8;
    v_met int8[] := '{}';
    v_seen int8[];
BEGIN
    SELECT a.* INTO o_asked, v_forms, v_at, v_keys, v_turns, v_weights, v_weight, v_runs, v_over, v_is_said, v_rest
    FROM {jobs_ask}(p_queue, p_new, p_turn, p_gates, p_done, p_weights) AS a;
    IF o_asked = 0 THEN
        RETURN NEXT;
        RETURN;
    END IF;
    v_are_single := o_asked = v_weight AND o_asked >= p_want;
    v_parts := CASE
        WHEN v_are_single THEN array_fill(1::int8, ARRAY[o_asked::int4])
        ELSE ARRAY(SELECT greatest((p_want * w.weight + v_weight - 1) / v_weight, 1) FROM unnest(v_weights) AS w (weight))
    END;
    v_mosts := v_parts; o_is_near := false;
    IF p_concurrency IS NOT NULL OR p_jobs IS NOT NULL OR p_pauses <> '{}' THEN
        SELECT l.* INTO v_mosts, v_untils, v_free, v_permits, o_is_near
        FROM {jobs_room}(p_now, p_queue, v_keys, v_parts, p_concurrency, p_jobs, p_burst, p_step, p_pauses) AS l;
    END IF;
    SELECT f.* INTO v_found, v_seqs, v_asked, v_asked_keys, v_seen
    FROM {jobs_front}(
        p_now, p_queue, p_kinds, p_want, v_keys, v_mosts, v_are_single, p_taken || p_skipped, p_worth, p_offset
    ) AS f;
    SELECT
        coalesce(array_agg(c.ctid), '{}'), coalesce(array_agg(c.seq), '{}'), coalesce(array_agg(c.size), '{}'),
        coalesce(array_agg(c.gate), '{}'), coalesce(array_agg(c.seq || ' ' || c.key), '{}'), array_agg(c.is_left), count(*),
        coalesce(sum(c.size), 0)
    INTO o_places, o_jobs, o_sizes, v_gates, o_keys, v_kept, v_count, o_bytes
    FROM (
        SELECT w.ctid, w.seq, w.size, f.gate, f.key, f.seen > 1 AS is_left
        FROM unnest(v_found, v_asked, v_asked_keys, v_seen) AS f (place, gate, key, seen)
        JOIN waiting AS w ON w.ctid = f.place
        FOR UPDATE OF w SKIP LOCKED
    ) AS c;
    o_skipped := '{}'; o_met_locked := v_count < coalesce(cardinality(v_found), 0);
    IF o_met_locked THEN
        SELECT array_agg(f.seq), array_agg(f.gate) INTO o_skipped, v_met
        FROM unnest(v_seqs, v_asked) AS f (seq, gate)
        WHERE f.seq NOT IN (SELECT j.seq FROM unnest(o_jobs) AS j (seq));
    END IF;
    v_fitting := v_count;
    IF o_bytes > p_bytes THEN
        -- Of those that fit, and of the first that does not: it ends the claim.
        SELECT count(*) FILTER (WHERE s.fits), coalesce(sum(s.size) FILTER (WHERE s.fits_before), 0) INTO v_fitting, o_bytes
        FROM (
            SELECT
                s.size, s.bytes <= p_bytes OR s.place = 1 AND p_is_first AS fits,
                s.place = 1 OR s.bytes - s.size <= p_bytes AS fits_before
            FROM (
                SELECT size, place, sum(size) OVER (ORDER BY place) AS bytes
                FROM unnest(o_sizes) WITH ORDINALITY AS s (size, place)
            ) AS s
        ) AS s;
    END IF;
    -- Gates behind the one that the last job was chosen from were not asked, also where other calls had locked some of them.
    v_reached := CASE
        WHEN v_fitting < v_count THEN v_gates[v_fitting + 1] WHEN cardinality(v_found) = p_want THEN v_asked[p_want] ELSE o_asked
    END;
    o_places := o_places[1:v_fitting]; o_jobs := o_jobs[1:v_fitting]; o_sizes := o_sizes[1:v_fitting];
    v_gates := v_gates[1:v_fitting]; o_keys := o_keys[1:v_fitting];
    IF v_are_single AND v_fitting = v_reached AND v_seen IS NOT NULL AND cardinality(p_skipped) = 0 THEN
        -- Each of them gave its one job.
        v_given := v_parts[1:v_reached]; v_kept := v_kept[1:v_reached]; o_done := '{}';
    ELSE
        SELECT
            array_agg(g.given ORDER BY g.gate),
            array_agg(CASE WHEN v_mosts[g.gate] > 0 THEN g.seen > g.given END ORDER BY g.gate)
                FILTER (WHERE v_seen IS NOT NULL AND cardinality(p_skipped) = 0),
            coalesce(array_agg(v_keys[g.gate]) FILTER (WHERE g.given < v_parts[g.gate] AND g.gate <> ALL (v_met)), '{}')
        INTO v_given, v_kept, o_done
        FROM (
            SELECT n.gate, sum(n.given) AS given, max(n.seen) AS seen
            FROM (
                SELECT generate_series(1, v_reached) AS gate, 0 AS given, 0 AS seen
                UNION ALL
                SELECT unnest(v_gates), 1, 0
                UNION ALL
                SELECT unnest(v_asked), 0, unnest(v_seen)
            ) AS n
            WHERE n.gate <= v_reached
            GROUP BY n.gate
        ) AS g;
    END IF;
    IF v_is_said THEN
        v_over := v_keys[v_reached + 1:] || v_over;
    END IF;
    v_keys := v_keys[1:v_reached];
    IF v_is_said AND v_reached = o_asked THEN
        p_new := v_rest;
    ELSIF p_new <> '{}' THEN
        -- Those that were not asked.
        p_new := ARRAY(SELECT n.key FROM unnest(p_new) AS n (key) WHERE n.key NOT IN (SELECT k.key FROM unnest(v_keys) AS k (key)));
    END IF;
    PERFORM 1
    FROM {jobs_pass}(
        p_now, p_queue, p_turn, v_forms[1:v_reached], v_at[1:v_reached], v_keys, v_turns[1:v_reached], v_weights[1:v_reached],
        v_given, v_kept, v_untils[1:v_reached], v_free[1:v_reached], v_permits[1:v_reached], v_runs, v_over, v_is_said,
        p_new, o_jobs, v_gates, p_concurrency IS NOT NULL, p_taken, p_jobs, p_per, p_shape, p_burst, p_step
    );
    RETURN NEXT;
END
$$;
