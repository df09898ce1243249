-- A part of the claim: writes the turns of open gates by runs. The definition of the queue is locked.
--
-- p_runs           where the runs are that were read; those of their keys that were not asked are written anew
-- p_asked          the keys that were asked
-- p_keys, p_turns  keys of gates that stay open, or come into being, and their turns
CREATE FUNCTION {function}(p_queue text, p_runs tid[], p_asked text[], p_keys text[], p_turns int8[]) RETURNS TABLE (o_runs int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    WITH gone AS (
        DELETE FROM gate_runs WHERE ctid = ANY (p_runs) RETURNING turn, keys
    )
    INSERT INTO gate_runs (queue, turn, first, last, keys, count)
    SELECT p_queue, r.turn, min(r.key), max(r.key), array_agg(r.key), count(*)
    FROM (
        SELECT k.turn, k.key COLLATE "C" AS key, (row_number() OVER (PARTITION BY k.turn ORDER BY k.key COLLATE "C") - 1) / 128 AS part
        FROM (
            SELECT g.turn, g.key
            FROM (SELECT g.turn, unnest(g.keys) AS key FROM gone AS g) AS g
            WHERE g.key NOT IN (SELECT a.key FROM unnest(p_asked) AS a (key))
            UNION ALL
            SELECT k.turn, k.key FROM unnest(p_keys, p_turns) AS k (key, turn)
        ) AS k
    ) AS r
    GROUP BY r.turn, r.part;
    GET DIAGNOSTICS o_runs = ROW_COUNT;
    RETURN NEXT;
END
$$;
