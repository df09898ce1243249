-- A part of the claim: tells the gates of a queue what has happened, and opens those whose time has come; a bounded number. The
-- definition of the queue is locked.
--
-- p_most  about how many keys of reports
-- result  keys whose gates come into being now, and with which turn. They are not written: most are asked at once, and many of
--         these are forgotten then. And whether there may be more to tell
CREATE FUNCTION {function}(p_now int8, p_queue text, p_most int8) RETURNS TABLE (o_new text[], o_turn int8, o_is_behind bool)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_told int8; v_due int8; v_came text[]; v_ended text[];
BEGIN
    -- Those that are made or open come in where the first one is.
    o_turn := coalesce(
        (SELECT g.turn FROM gates AS g WHERE g.queue = p_queue AND g.open_at = 0 ORDER BY g.turn, g.key LIMIT 1), 0
    );
    WITH told AS (
        DELETE FROM gate_reports
        WHERE ctid = ANY (
            ARRAY(
                SELECT f.at
                FROM (
                    SELECT f.at, sum(f.count) OVER (ROWS UNBOUNDED PRECEDING) - f.count AS before
                    FROM (
                        SELECT r.ctid AS at, r.count FROM gate_reports AS r WHERE r.queue = p_queue ORDER BY r.id LIMIT p_most
                    ) AS f
                ) AS f
                WHERE f.before < p_most
            )
        )
        RETURNING keys, count, is_ended
    ), known AS (
        SELECT k.key, bool_or(NOT k.is_ended) AS came, bool_or(k.is_ended) AS ended
        FROM (SELECT unnest(t.keys) AS key, t.is_ended FROM told AS t) AS k
        GROUP BY k.key
    )
    SELECT
        (SELECT greatest(sum(t.count), count(*)) FROM told AS t), array_agg(k.key) FILTER (WHERE k.came),
        array_agg(k.key) FILTER (WHERE k.ended)
    INTO v_told, v_came, v_ended
    FROM known AS k;
    UPDATE gates SET open_at = 0, turn = o_turn
    WHERE ctid = ANY (
        ARRAY(
            SELECT g.ctid
            FROM gates AS g
            WHERE g.queue = p_queue AND g.open_at > 0 AND g.open_at <= p_now
            ORDER BY g.open_at
            LIMIT {gates_looked_max}
        )
    );
    GET DIAGNOSTICS v_due = ROW_COUNT;
    IF v_told > 0 THEN
        -- Each is looked up by both names, in a query of its own: statistics that were taken while there were few gates would
        -- make a join walk all of the queue's for each of them.
        IF v_ended IS NOT NULL AND EXISTS (SELECT 1 FROM gates AS g WHERE g.queue = p_queue AND g.open_at > 0) THEN
            UPDATE gates SET open_at = 0, turn = o_turn
            WHERE ctid = ANY (
                ARRAY(
                    SELECT (SELECT g.ctid FROM gates AS g WHERE g.queue = p_queue AND g.key = e.key AND g.open_at + 0 > 0)
                    FROM unnest(v_ended) AS e (key)
                )
            );
        END IF;
        SELECT array_agg(c.key) INTO o_new
        FROM unnest(v_came) AS c (key)
        WHERE (SELECT true FROM gates AS g WHERE g.queue = p_queue AND g.key = c.key) IS NULL;
    END IF;
    o_new := coalesce(o_new, '{}');
    o_is_behind := v_told >= p_most OR v_due >= {gates_looked_max};
    RETURN NEXT;
END
$$;
