-- Queues that have a definition or hold jobs, by name, after the given one. A text that breaks the rules of names is
-- left out: no call can name such a queue. Of one with rules also what was spent of its rate: when permits come back and how
-- many, in turns.
CREATE FUNCTION {function}(p_after text, p_limit int8)
RETURNS TABLE (
    o_name text, o_config text, o_blocked int8, o_scheduled int8, o_ready int8, o_running int8, o_completed int8,
    o_dead int8, o_cancelled int8, o_now int8, o_spent int8[]
)
LANGUAGE plpgsql STABLE SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
BEGIN
    RETURN QUERY
    SELECT
        coalesce(q.name, c.queue)::text AS name, q.config, coalesce(c.blocked, 0), coalesce(c.scheduled, 0),
        coalesce(c.ready, 0), coalesce(c.running, 0), coalesce(c.completed, 0), coalesce(c.dead, 0),
        coalesce(c.cancelled, 0), v_now,
        CASE
            WHEN q.rules > 0 THEN
                ARRAY(
                    SELECT unnest(ARRAY[s.back_at, s.jobs]) FROM spent AS s WHERE s.queue = q.name AND s.back_at > v_now
                )
        END
    FROM (SELECT * FROM counts WHERE queue > p_after) AS c
    FULL JOIN (SELECT name, config, rules FROM queues WHERE name > p_after) AS q ON q.name = c.queue
    WHERE (
            q.name IS NOT NULL
            OR c.blocked + c.scheduled + c.ready + c.running + c.completed + c.dead + c.cancelled > 0
        )
        AND coalesce(q.name, c.queue) ~ '^[A-Za-z0-9_.:-]{1,128}$'
    ORDER BY coalesce(q.name, c.queue) COLLATE "C"
    LIMIT p_limit;
END
$$;
