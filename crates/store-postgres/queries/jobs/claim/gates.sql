-- A part of the claim: tells the gates of a queue what has happened, and opens those whose time has come; a bounded number. The
-- definition of the queue is locked.
--
-- result  whether there may be more
CREATE FUNCTION {function}(p_now int8, p_queue text) RETURNS TABLE (o_is_behind bool)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_turn int8; v_told int8; v_due int8; v_came text[]; v_ended text[];
BEGIN
    -- Those that are made or open come in where the first one is.
    v_turn := coalesce(
        (SELECT g.turn FROM gates AS g WHERE g.queue = p_queue AND g.open_at = 0 ORDER BY g.turn, g.key LIMIT 1), 0
    );
    WITH told AS (
        DELETE FROM gate_notes AS n
        WHERE n.queue = p_queue
            AND n.id <= (
                SELECT max(f.id)
                FROM (SELECT f.id FROM gate_notes AS f WHERE f.queue = p_queue ORDER BY f.id LIMIT 2000) AS f
            )
        RETURNING n.key, n.came, n.ended
    )
    SELECT
        count(*), array_agg(DISTINCT t.key::text) FILTER (WHERE t.came), array_agg(DISTINCT t.key::text) FILTER (WHERE t.ended)
    INTO v_told, v_came, v_ended
    FROM told AS t;
    WITH due AS MATERIALIZED (
        SELECT g.queue, g.key
        FROM gates AS g
        WHERE g.queue = p_queue AND g.open_at > 0 AND g.open_at <= p_now
        ORDER BY g.open_at
        LIMIT {gates_looked_max}
    )
    UPDATE gates AS g SET open_at = 0, turn = v_turn
    FROM due AS d
    WHERE g.queue = ANY (ARRAY[d.queue]) AND g.key = ANY (ARRAY[d.key]);
    GET DIAGNOSTICS v_due = ROW_COUNT;
    IF v_told > 0 THEN
        -- By both names, and by an expression: so no plan walks the gates of a queue, or all that are closed.
        UPDATE gates AS g SET open_at = 0, turn = v_turn
        FROM (SELECT p_queue AS queue, e.key FROM unnest(v_ended) AS e (key) OFFSET 0) AS e
        WHERE g.queue = ANY (ARRAY[e.queue]) AND g.key = ANY (ARRAY[e.key]) AND g.open_at + 0 > 0;
        INSERT INTO gates (queue, key, turn, open_at)
        SELECT p_queue, c.key, v_turn, 0 FROM unnest(v_came) AS c (key)
        ON CONFLICT (queue, key) DO NOTHING;
    END IF;
    o_is_behind := v_told >= 2000 OR v_due >= {gates_looked_max};
    RETURN NEXT;
END
$$;
