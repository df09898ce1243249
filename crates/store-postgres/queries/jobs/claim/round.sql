-- A part of the claim: one round over the gates of a queue. Asks the first open ones, locks what they give, and writes what
-- becomes of them. The definition of the queue is locked.
--
-- p_want      how many jobs, p_gates how many gates
-- p_done      keys that are not asked again, p_taken jobs that were taken before
-- p_skipped   jobs that other calls had locked: those behind them have their turn
-- p_bytes, p_is_first  as in jobs/claim/heed
-- p_worth, p_offset    as in jobs/claim/keyed
-- result      how many gates were chosen; which keys gave less than their part, though nothing stood in the way; jobs that other
--             calls had locked; and as in jobs/claim/heed
CREATE FUNCTION {function}(
    p_now int8, p_queue text, p_config text, p_kinds text[], p_want int8, p_gates int8, p_done text[], p_taken int8[],
    p_skipped int8[], p_bytes int8, p_is_first bool, p_worth int8, p_offset int8
) RETURNS TABLE (
    o_asked int8, o_done text[], o_skipped int8[], o_places tid[], o_jobs int8[], o_sizes int8[], o_bytes int8, o_met_locked bool, o_keys text[]
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_rules record;
    -- By gate, in their order.
    v_keys text[]; v_weights int8[]; v_weight int8; v_parts int8[]; v_mosts int8[]; v_given int8[]; v_reached int8;
    -- By job: where it is, and the place of its gate.
    v_found tid[]; v_seqs int8[]; v_gates int8[]; v_count int8; v_fitting int8; v_met int8[];
BEGIN
    SELECT r.* INTO v_rules FROM {queues_key_rules}(p_config) AS r;
    SELECT count(*), array_agg(g.key), array_agg(g.weight), sum(g.weight) INTO o_asked, v_keys, v_weights, v_weight
    FROM (
        SELECT g.key::text AS key, greatest(coalesce((v_rules.o_weights ->> g.key)::int8, 1), 1) AS weight
        FROM gates AS g
        WHERE g.queue = p_queue AND g.open_at = 0 AND g.key <> ALL (p_done)
        ORDER BY g.turn, g.key
        LIMIT p_gates
    ) AS g;
    IF o_asked = 0 THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT array_agg(a.part), array_agg(least(a.part, g.o_left)) INTO v_parts, v_mosts
    FROM (
        SELECT k.key, greatest((p_want * k.weight + v_weight - 1) / v_weight, 1) AS part
        FROM unnest(v_keys, v_weights) AS k (key, weight)
        OFFSET 0
    ) AS a
    CROSS JOIN LATERAL {jobs_gate}(
        p_now, p_queue, a.key, v_rules.o_concurrency, v_rules.o_jobs, v_rules.o_burst, v_rules.o_step, v_rules.o_pauses -> a.key
    ) AS g;
    -- The first jobs of each gate, some more than it may give, for some are of other kinds.
    IF p_worth IS NULL THEN
        SELECT array_agg(f.ctid), array_agg(f.seq), array_agg(f.gate) INTO v_found, v_seqs, v_gates
        FROM (
            SELECT l.ctid, l.seq, a.gate
            FROM unnest(v_keys, v_mosts) WITH ORDINALITY AS a (key, most, gate)
            CROSS JOIN LATERAL (
                SELECT r.ctid, r.seq
                FROM (
                    SELECT w.ctid, w.seq
                    FROM waiting AS w
                    WHERE {line}
                        AND w.seq <> ALL (p_taken || p_skipped) AND (w.expires_at IS NULL OR w.attempt > 0 OR w.expires_at > p_now)
                    {turn}
                    LIMIT a.most + {passed_max}
                ) AS r
                JOIN jobs AS j ON j.seq = ANY (ARRAY[r.seq])
                WHERE j.kind = ANY (p_kinds)
                LIMIT a.most
            ) AS l
            LIMIT p_want
        ) AS f;
    ELSE
        SELECT array_agg(f.place), array_agg(f.seq), array_agg(f.gate) INTO v_found, v_seqs, v_gates
        FROM (
            SELECT l.o_place AS place, l.o_seq AS seq, a.gate
            FROM unnest(v_keys, v_mosts) WITH ORDINALITY AS a (key, most, gate)
            CROSS JOIN LATERAL {jobs_behind}(
                p_now, p_queue, a.key, p_kinds, a.most, p_worth, p_offset, p_taken || p_skipped
            ) AS l
            LIMIT p_want
        ) AS f;
    END IF;
    WITH locked AS MATERIALIZED (
        SELECT w.ctid, w.seq, w.size, f.gate
        FROM unnest(v_found, v_gates) AS f (place, gate)
        JOIN waiting AS w ON w.ctid = f.place
        FOR UPDATE OF w SKIP LOCKED
    )
    SELECT
        coalesce(array_agg(c.ctid), '{}'), coalesce(array_agg(c.seq), '{}'), coalesce(array_agg(c.size), '{}'),
        coalesce(array_agg(c.gate), '{}'), count(*), count(*) < coalesce(cardinality(v_found), 0),
        ARRAY(SELECT f.seq FROM unnest(v_seqs) AS f (seq) WHERE f.seq NOT IN (SELECT l.seq FROM locked AS l)),
        ARRAY(
            SELECT f.gate FROM unnest(v_seqs, v_gates) AS f (seq, gate) WHERE f.seq NOT IN (SELECT l.seq FROM locked AS l)
        )
    INTO o_places, o_jobs, o_sizes, v_gates, v_count, o_met_locked, o_skipped, v_met
    FROM locked AS c;
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
    -- Gates behind the one that gave the last job were not asked.
    v_reached := CASE
        WHEN v_fitting < v_count THEN v_gates[v_fitting + 1] WHEN v_fitting = p_want THEN v_gates[v_fitting] ELSE o_asked
    END;
    o_places := o_places[1:v_fitting]; o_jobs := o_jobs[1:v_fitting]; o_sizes := o_sizes[1:v_fitting];
    v_gates := v_gates[1:v_fitting];
    SELECT array_agg(g.given ORDER BY g.gate) INTO v_given
    FROM (
        SELECT n.gate, sum(n.jobs) AS given
        FROM (SELECT generate_series(1, o_asked) AS gate, 0 AS jobs UNION ALL SELECT unnest(v_gates), 1) AS n
        GROUP BY n.gate
    ) AS g;
    SELECT coalesce(array_agg(a.key) FILTER (WHERE a.given < a.part AND a.gate <> ALL (v_met)), '{}') INTO o_done
    FROM unnest(v_keys[1:v_reached], v_given[1:v_reached], v_parts[1:v_reached]) WITH ORDINALITY AS a (key, given, part, gate);
    o_keys := ARRAY(SELECT j.seq || ' ' || v_keys[j.gate] FROM unnest(o_jobs, v_gates) AS j (seq, gate));
    PERFORM 1
    FROM {jobs_pass}(
        p_now, p_queue, p_config, v_keys[1:v_reached], v_weights[1:v_reached], v_given[1:v_reached], o_jobs, v_gates, p_taken
    );
    RETURN NEXT;
END
$$;
