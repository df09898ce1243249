-- What was counted in some queues between two instants: rows of intervals of so many minutes or longer, and what is not folded
-- yet, as minutes with a step of 0.
CREATE FUNCTION {function}(p_queues text[], p_from int8, p_until int8, p_step int8)
RETURNS TABLE (o_now int8, o_step int8, o_queue text, o_at int8, o_kind text, o_cells int2[], o_times int8[])
LANGUAGE plpgsql STABLE SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
BEGIN
    RETURN QUERY
    SELECT v_now, t.step::int8, t.queue::text, t.at, t.kind::text, t.cells, t.times
    FROM tallies AS t
    WHERE t.queue = ANY (p_queues) AND t.step >= p_step AND t.at >= p_from AND t.at < p_until
    UNION ALL
    SELECT v_now, 0::int8, l.queue::text, l.minute, l.kind::text, array_agg(l.cell), array_agg(l.times)
    FROM (
        SELECT t.queue, t.minute, t.kind, t.cell, sum(t.times)::int8 AS times
        FROM tallied AS t
        WHERE t.queue = ANY (p_queues) AND t.minute >= p_from AND t.minute < p_until
        GROUP BY t.queue, t.minute, t.kind, t.cell
    ) AS l
    GROUP BY l.queue, l.minute, l.kind;
END
$$;
