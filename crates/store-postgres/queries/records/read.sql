-- The records under these keys.
--
-- result  one row per record that is there: its place (from 1), and what it is
CREATE FUNCTION {function}(p_queue text, p_keys text[])
RETURNS TABLE (o_place int8, o_version int8, o_written_at int8, o_expires_at int8, o_value bytea)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
BEGIN
    RETURN QUERY
    SELECT a.place, r.version, r.written_at, r.expires_at, r.value
    FROM unnest(p_keys) WITH ORDINALITY AS a (key, place)
    -- Each by itself: a join would be planned by statistics, and those of a moment with few records walk all of the queue.
    CROSS JOIN LATERAL (SELECT * FROM queue_records AS r WHERE r.queue = p_queue AND r.key = a.key LIMIT 1) AS r
    WHERE coalesce(r.expires_at > v_now, true);
END
$$;
