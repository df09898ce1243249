-- Records by key, in the order of its bytes.
--
-- p_from, p_until  the first key that there may be, and the first one after that which there may not
-- p_limit          how many, at most
-- p_bytes          after how many bytes of values it ends. The one after that still comes, to tell that there is more
-- result           one row per record
CREATE FUNCTION {function}(p_queue text, p_from text, p_until text, p_limit int8, p_bytes int8)
RETURNS TABLE (o_key text, o_version int8, o_written_at int8, o_expires_at int8, o_value bytea)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
    v_bytes int8 := 0;
    v_is_last bool;
BEGIN
    FOR o_key, o_version, o_written_at, o_expires_at, o_value IN
        SELECT r.key, r.version, r.written_at, r.expires_at, r.value
        FROM queue_records AS r
        WHERE r.queue = p_queue AND r.key >= p_from AND r.key < p_until AND coalesce(r.expires_at > v_now, true)
        ORDER BY r.key
        LIMIT p_limit
    LOOP
        v_is_last := v_bytes >= p_bytes;
        v_bytes := v_bytes + octet_length(o_value);
        RETURN NEXT;
        EXIT WHEN v_is_last;
    END LOOP;
END
$$;
