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
    v_told int8; v_due int8 := 0; v_came text[]; v_ended text[]; v_is_any_closed bool;
BEGIN
    -- Those that are made or open come in where the first one is.
    SELECT
        coalesce(
            least(
                (
                    SELECT g.turn
                    FROM gates AS g
                    WHERE hashtext(g.queue) = hashtext(p_queue) AND g.queue = p_queue AND g.open_at = 0 AND NOT g.in_run
                    ORDER BY g.turn, g.key
                    LIMIT 1
                ),
                (SELECT r.turn FROM gate_runs AS r WHERE r.queue = p_queue ORDER BY r.turn, r.first LIMIT 1)
            ),
            0
        ),
        EXISTS (SELECT 1 FROM gates AS g WHERE g.queue = p_queue AND g.open_at > 0)
    INTO o_turn, v_is_any_closed;
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
    )
    SELECT
        (SELECT greatest(sum(t.count), count(*)) FROM told AS t),
        ARRAY(SELECT DISTINCT unnest(t.keys) FROM told AS t WHERE NOT t.is_ended),
        -- Where no gate is closed, none opens.
        ARRAY(SELECT DISTINCT unnest(t.keys) FROM told AS t WHERE t.is_ended AND v_is_any_closed)
    INTO v_told, v_came, v_ended;
    IF v_is_any_closed THEN
        UPDATE gates SET open_at = 0, turn = o_turn, in_run = false
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
    END IF;
    IF v_told > 0 THEN
        -- Each is looked up by both names, in a query of its own: statistics that were taken while there were few gates would
        -- make a join walk all of the queue's for each of them.
        IF v_ended <> '{}' THEN
            UPDATE gates SET open_at = 0, turn = o_turn, in_run = false
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
