-- A part of the claim: writes the turns of open gates by runs. The definition of the queue is locked.
--
-- p_runs           where the runs are that were read; those of their keys that were not asked are written anew
-- p_asked          the keys that were asked
-- p_over, p_turn   the others of these runs, by their bytes, which all have this turn; NULL: that is not known
-- p_keys, p_turns  keys of gates that stay open, or come into being, and their turns; p_are_sorted: by the bytes of the keys
CREATE FUNCTION {function}(
    p_queue text, p_runs tid[], p_asked text[], p_over text[], p_turn int8, p_keys text[], p_turns int8[], p_are_sorted bool
) RETURNS TABLE (o_runs int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_keys text[] := p_over; v_turn int8 := p_turn;
BEGIN
    IF p_over IS NOT NULL THEN
        IF p_runs <> '{}' THEN
            DELETE FROM gate_runs WHERE ctid = ANY (p_runs);
        END IF;
        p_are_sorted := p_keys = '{}' OR p_are_sorted AND p_turns = array_fill(p_turns[1], ARRAY[cardinality(p_turns)]);
        FOR step IN 1 .. 2 LOOP
            FOR i IN 1 .. cardinality(v_keys) BY 128 LOOP
                INSERT INTO gate_runs (queue, turn, first, last, keys, count)
                VALUES (
                    p_queue, v_turn, v_keys[i], v_keys[least(i + 127, cardinality(v_keys))], v_keys[i:i + 127],
                    least(cardinality(v_keys) - i + 1, 128)
                );
            END LOOP;
            EXIT WHEN NOT p_are_sorted;
            v_keys := p_keys; v_turn := p_turns[1];
        END LOOP;
        IF p_are_sorted THEN
            RETURN NEXT;
            RETURN;
        END IF;
        p_runs := '{}';
    END IF;
    WITH gone AS (
        DELETE FROM gate_runs WHERE ctid = ANY (p_runs) RETURNING turn, keys
    )
    INSERT INTO gate_runs (queue, turn, first, last, keys, count)
    SELECT p_queue, r.turn, min(r.key), max(r.key), array_agg(r.key), count(*)
    FROM (
        -- What was not asked is apart from the others, or runs would overlap more than they have to.
        SELECT
            k.turn, k.is_over, k.key COLLATE "C" AS key,
            (row_number() OVER (PARTITION BY k.turn, k.is_over ORDER BY k.key COLLATE "C") - 1) / 128 AS part
        FROM (
            -- A gate that a program of before has forgotten may come into being while its key is in a run.
            SELECT min(k.turn) AS turn, bool_or(k.is_over) AS is_over, k.key
            FROM (
                SELECT g.turn, g.key, true AS is_over
                FROM (SELECT g.turn, unnest(g.keys) AS key FROM gone AS g) AS g
                WHERE g.key NOT IN (SELECT a.key FROM unnest(p_asked) AS a (key))
                UNION ALL
                SELECT k.turn, k.key, false FROM unnest(p_keys, p_turns) AS k (key, turn)
            ) AS k
            GROUP BY k.key
        ) AS k
    ) AS r
    GROUP BY r.turn, r.is_over, r.part;
    GET DIAGNOSTICS o_runs = ROW_COUNT;
    RETURN NEXT;
END
$$;
