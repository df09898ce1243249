-- A part of the claim: in which of many queues there is something to do, by one look over all of them.
--
-- p_moved_to, p_floor_queues  as in jobs/claim
-- result  the places of the queues (from 1) that have expired, due or ready jobs; and when the first job of the others is due
CREATE FUNCTION {function}(
    p_now int8, p_queues text[], p_moved_to int8[], p_floor_queues int8[]
) RETURNS TABLE (o_places int8[], o_due int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := p_now;
BEGIN
    RETURN QUERY
    SELECT array_agg(l.place ORDER BY l.place) FILTER (WHERE l.is_worth_it), min(l.due) FILTER (WHERE NOT l.is_worth_it)
    FROM (
        SELECT
            d.place, d.due,
            d.due <= v_now IS TRUE OR d.is_late IS TRUE OR d.place = ANY (p_floor_queues)
            OR EXISTS (SELECT 1 FROM waiting AS w WHERE w.state = 2 AND w.queue = d.v_queue) AS is_worth_it
        FROM (
            SELECT
                q.place, q.v_queue,
                ({late}) AS is_late,
                ({next}) AS due
            -- Columns are named as the fragments want them.
            FROM unnest(p_queues, p_moved_to) WITH ORDINALITY AS q (v_queue, v_moved_to, place)
        ) AS d
    ) AS l;
END
$$;
