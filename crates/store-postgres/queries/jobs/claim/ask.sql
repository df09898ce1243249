-- A part of the claim: the open gates of a queue that are asked in a round, in their order. The definition of the queue is locked.
--
-- p_new, p_turn  keys whose gates have come into being, and with which turn; they are not written yet
-- p_gates        how many gates
-- p_done         keys that are not asked again
-- p_weights      as in queues/key_rules
-- result         how many; of each its form (0: it is not written yet, 1: its row has its turn, 2: a run has it), where its row is (NULL:
--                that was not looked up), its key, its turn and its weight; the sum of the weights; where the runs are that were read;
--                and the keys of these that are not asked, by their bytes, if all of the runs have one turn (NULL: some do not).
--                Whether all gates that were looked at have one turn and none has a row that says it: then those that are not
--                asked are among these keys as well if they are not written yet, and o_rest has them
CREATE FUNCTION {function}(p_queue text, p_new text[], p_turn int8, p_gates int8, p_done text[], p_weights jsonb)
RETURNS TABLE (
    o_asked int8, o_forms int8[], o_at tid[], o_keys text[], o_turns int8[], o_weights int8[], o_weight int8, o_runs tid[],
    o_over text[], o_is_said bool, o_rest text[]
)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_run record; v_count int8 := 0; v_turn int8; v_last text COLLATE "C";
BEGIN
    o_runs := '{}'; o_over := '{}'; o_rest := '{}';
    -- Then runs and what has come into being say whose turn it is, and in which order.
    o_is_said := p_done = '{}';
    -- Runs may overlap: all that begin before the last key of those that have enough.
    FOR v_run IN
        SELECT r.ctid AS at, r.turn, r.first, r.last, r.keys, r.count FROM gate_runs AS r WHERE r.queue = p_queue ORDER BY r.turn, r.first
    LOOP
        EXIT WHEN v_count >= p_gates + cardinality(p_done) AND (v_run.turn, v_run.first COLLATE "C") > (v_turn, v_last);
        o_is_said := o_is_said AND CASE
            WHEN v_turn IS NULL THEN p_new = '{}' OR v_run.turn = p_turn
            ELSE v_run.turn = v_turn AND v_run.first COLLATE "C" > v_last
        END;
        o_runs := o_runs || v_run.at; v_count := v_count + v_run.count;
        IF o_is_said THEN
            o_over := o_over || v_run.keys;
        END IF;
        IF v_turn IS NULL OR (v_run.turn, v_run.last COLLATE "C") > (v_turn, v_last) THEN
            v_turn := v_run.turn; v_last := v_run.last;
        END IF;
    END LOOP;
    o_is_said := o_is_said AND (v_count > 0 OR p_new <> '{}') AND ({loose}) IS NULL;
    IF o_is_said AND p_new <> '{}' THEN
        SELECT
            count(*) FILTER (WHERE m.place <= p_gates), array_agg(m.form) FILTER (WHERE m.place <= p_gates), array_agg(m.key),
            coalesce(array_agg(m.key) FILTER (WHERE m.place > p_gates AND m.form = 0), '{}')
        INTO o_asked, o_forms, o_keys, o_rest
        FROM (
            SELECT k.key, k.form, row_number() OVER () AS place
            FROM (
                -- A gate that a program of before has forgotten may come into being while its key is in a run.
                SELECT n.key, min(n.form) AS form
                FROM (
                    SELECT unnest(o_over) COLLATE "C" AS key, 2::int8 AS form
                    UNION ALL
                    SELECT unnest(p_new) COLLATE "C", 0
                ) AS n
                GROUP BY n.key
                ORDER BY n.key
            ) AS k
        ) AS m;
        o_over := o_keys[o_asked + 1:]; o_keys := o_keys[:o_asked]; o_turns := array_fill(p_turn, ARRAY[o_asked::int4]);
    ELSIF o_is_said THEN
        o_asked := least(v_count, p_gates); o_keys := o_over[1:o_asked]; o_over := o_over[o_asked + 1:];
        o_forms := array_fill(2::int8, ARRAY[o_asked::int4]); o_turns := array_fill(v_turn, ARRAY[o_asked::int4]);
    ELSE
        o_over := CASE WHEN v_count = 0 THEN o_over END;
        SELECT count(*), array_agg(g.form), array_agg(g.at), array_agg(g.key), array_agg(g.turn)
        INTO o_asked, o_forms, o_at, o_keys, o_turns
        FROM (
            -- A program of before may have left a gate twice.
            SELECT g.key, min(g.turn) AS turn, max(g.at) AS at, min(g.form) AS form
            FROM (
                (
                    SELECT g.ctid AS at, g.key::text AS key, g.turn, 1::int8 AS form
                    FROM gates AS g
                    -- By a query, which is hashed, where a comparison with each element would be made for each gate.
                    WHERE hashtext(g.queue) = hashtext(p_queue) AND g.queue = p_queue AND g.open_at = 0 AND NOT g.in_run
                        AND (cardinality(p_done) = 0 OR g.key NOT IN (SELECT d.key FROM unnest(p_done) AS d (key)))
                    ORDER BY g.turn, g.key
                    LIMIT p_gates
                )
                UNION ALL
                SELECT NULL, n.key, p_turn, 0 FROM unnest(p_new) AS n (key)
                UNION ALL
                SELECT NULL, r.key, r.turn, 2
                FROM (SELECT unnest(r.keys) AS key, r.turn FROM gate_runs AS r WHERE r.ctid = ANY (o_runs)) AS r
                WHERE cardinality(p_done) = 0 OR r.key NOT IN (SELECT d.key FROM unnest(p_done) AS d (key))
            ) AS g
            GROUP BY g.key
            ORDER BY min(g.turn), g.key COLLATE "C"
            LIMIT p_gates
        ) AS g;
    END IF;
    IF p_weights = '{}' THEN
        o_weights := array_fill(1::int8, ARRAY[o_asked::int4]); o_weight := o_asked;
    ELSE
        SELECT array_agg(w.weight), sum(w.weight) INTO o_weights, o_weight
        FROM (
            SELECT greatest(coalesce((p_weights ->> k.key)::int8, 1), 1) AS weight FROM unnest(o_keys) AS k (key)
        ) AS w;
    END IF;
    RETURN NEXT;
END
$$;
