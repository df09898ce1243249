-- How many records a queue has, and how many bytes their values are.
--
-- p_limit  how many are looked at, at most
-- result   their number, their bytes, and whether there are more than were looked at
CREATE FUNCTION {function}(p_queue text, p_limit int8) RETURNS TABLE (o_count int8, o_bytes int8, o_has_more bool)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
BEGIN
    RETURN QUERY
    SELECT
        count(*) FILTER (WHERE l.is_there AND l.place <= p_limit),
        coalesce(sum(l.size) FILTER (WHERE l.is_there AND l.place <= p_limit), 0)::int8,
        count(*) > p_limit
    FROM (
        SELECT
            row_number() OVER () AS place, octet_length(r.value) AS size, coalesce(r.expires_at > v_now, true) AS is_there
        FROM queue_records AS r
        WHERE r.queue = p_queue
        LIMIT p_limit + 1
    ) AS l;
END
$$;
