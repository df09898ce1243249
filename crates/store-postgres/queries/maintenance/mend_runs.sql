-- A part of maintenance/mend: gates whose turn should be in a run and is in none have it in their rows again. The definition of the
-- queue is locked.
--
-- p_keys  of gates that were in runs before the lock; NULL: none
-- result  how many were in none
CREATE FUNCTION {function}(p_queue text, p_keys text[]) RETURNS TABLE (o_gates int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    o_gates := 0;
    -- Not where there are very many runs: all are read.
    IF p_keys IS NOT NULL AND (SELECT count(*) FROM (SELECT 1 FROM gate_runs AS r WHERE r.queue = p_queue LIMIT 2001) AS r) <= 2000
    THEN
        UPDATE gates SET in_run = false
        WHERE queue = p_queue AND in_run
            AND key = ANY (
                ARRAY(
                    SELECT k.key
                    FROM unnest(p_keys) AS k (key)
                    WHERE k.key NOT IN (SELECT unnest(r.keys) FROM gate_runs AS r WHERE r.queue = p_queue)
                )
            );
        GET DIAGNOSTICS o_gates = ROW_COUNT;
    END IF;
    RETURN NEXT;
END
$$;
