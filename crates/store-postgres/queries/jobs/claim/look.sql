-- A part of the claim: in which of its queues there is something to do, by one look over all of them.
--
-- p_is_plain  whether queues are not asked for ready jobs here: to take them is as quick as to ask
-- p_keyed     the places of those that use the rule of keys: their gates are looked at even if no job is ready
-- others      as in jobs/claim
-- result      the places of the queues (from 1) that have expired or due jobs, and of those that may have ready ones then; and
--             when the first job of the others is due
CREATE FUNCTION {function}(
    p_now int8, p_queues text[], p_shares int8[], p_kinds text[], p_is_plain bool, p_moved_to int8[], p_floor_queues int8[],
    p_keyed int8[]
) RETURNS TABLE (o_moving int8[], o_giving int8[], o_due int8)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    v_now ALIAS FOR p_now;
BEGIN
    SELECT
        coalesce(array_agg(l.place) FILTER (WHERE l.is_moving), '{}'),
        coalesce(
            array_agg(l.place) FILTER (
                WHERE l.share > 0 AND l.place = ANY (p_keyed) OR cardinality(p_kinds) > 0 AND l.share > 0
                    AND (
                        p_is_plain OR l.is_moving OR l.place = ANY (p_floor_queues)
                        OR EXISTS (
                            SELECT 1 FROM waiting AS w
                            WHERE w.state = 2 AND hashtext(w.queue) = hashtext(l.v_queue) AND w.queue = l.v_queue
                        )
                    )
            ),
            '{}'
        ),
        min(l.due) FILTER (WHERE NOT l.is_moving)
    INTO o_moving, o_giving, o_due
    FROM (
        SELECT d.place, d.v_queue, d.share, d.due, d.is_late IS TRUE OR d.due <= v_now IS TRUE AS is_moving
        FROM (
            SELECT
                q.place, q.v_queue, q.share,
                ({late}) AS is_late,
                ({next}) AS due
            -- Columns are named as the fragments want them.
            FROM unnest(p_queues, p_moved_to, p_shares) WITH ORDINALITY AS q (v_queue, v_moved_to, share, place)
            OFFSET 0
        ) AS d
        WHERE d.v_queue IS NOT NULL
    ) AS l;
    RETURN NEXT;
END
$$;
