-- Changes records, if each of them is as expected; else its caller takes back what it has written. Comes last in every call: the
-- rows of jobs and unique keys are locked before those of records.
--
-- p_queues    the queue of each record, or one for all
-- p_keys      ascending by queue and key, and each once: the order in which records are locked everywhere
-- p_expects   0: anything, 1: nothing, 2: the version in p_expected; none, of both: anything
-- p_versions  what the write leaves; NULL: the record is removed
-- p_ttls      how long it stays; NULL: for ever
-- result      one row per record that is not as expected: its place (from 1), and the version that was found; NULL: it is not there
CREATE FUNCTION {function}(
    p_queues text[], p_keys text[], p_expects int8[], p_expected int8[], p_versions int8[], p_values bytea[], p_ttls int8[]
) RETURNS TABLE (o_place int8, o_found int8)
LANGUAGE plpgsql VOLATILE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_now int8 := clock_micros();
    v_then int8;
BEGIN
    IF cardinality(p_expects) = 0 AND array_position(p_versions, NULL) IS NULL THEN
        -- Mostly: each is put, whatever is there.
        INSERT INTO queue_records AS r (queue, key, version, written_at, expires_at, value)
        SELECT coalesce(a.queue, p_queues[1]), a.key, a.version, v_now, later(v_now, a.ttl), a.value
        FROM (
            SELECT
                unnest(p_queues) AS queue, unnest(p_keys) AS key, unnest(p_versions) AS version, unnest(p_values) AS value,
                unnest(p_ttls) AS ttl
        ) AS a
        ON CONFLICT (queue, key) DO UPDATE
        SET version = excluded.version, value = excluded.value, written_at = clock_micros(),
            -- From now on: it may have been waited for.
            expires_at = later(clock_micros(), excluded.expires_at - excluded.written_at);
        RETURN;
    ELSIF cardinality(p_keys) = 1 AND cardinality(p_expects) = 0 THEN
        DELETE FROM queue_records AS r WHERE r.queue = p_queues[1] AND r.key = p_keys[1];
        RETURN;
    END IF;
    -- Locks what is there and adds what is not, in one order, so that nothing comes between this and the changes. What is to be
    -- removed, or should be there, is added as a record whose time is over.
    INSERT INTO queue_records AS r (queue, key, version, written_at, expires_at, value)
    SELECT
        coalesce(a.queue, p_queues[1]), a.key, coalesce(a.version, 0), v_now,
        CASE WHEN a.version IS NULL OR a.expect = 2 THEN 0 ELSE later(v_now, a.ttl) END, coalesce(a.value, '')
    FROM (
        SELECT
            unnest(p_queues) AS queue, unnest(p_keys) AS key, unnest(p_versions) AS version, unnest(p_values) AS value,
            unnest(p_ttls) AS ttl, unnest(p_expects) AS expect
    ) AS a
    ON CONFLICT (queue, key) DO UPDATE SET version = excluded.version WHERE false;
    v_then := clock_micros();
    -- As RecordWrite::is_met_by in the core. What was added just now has its own version.
    RETURN QUERY
    SELECT f.place, f.found
    FROM (
        SELECT
            a.place, a.version, a.expect, a.expected,
            CASE WHEN coalesce(r.expires_at > v_then, true) THEN r.version END AS found
        FROM (
            SELECT
                i::int8 AS place, coalesce(p_queues[i], p_queues[1]) AS queue, p_keys[i] AS key, p_versions[i] AS version,
                p_expects[i] AS expect, p_expected[i] AS expected
            FROM generate_subscripts(p_expects, 1) AS i
            WHERE p_expects[i] <> 0
            OFFSET 0
        ) AS a
        CROSS JOIN LATERAL (
            SELECT r.version, r.expires_at FROM queue_records AS r WHERE r.queue = a.queue AND r.key = a.key LIMIT 1
        ) AS r
    ) AS f
    WHERE NOT coalesce(f.found = f.version, false)
        AND CASE WHEN f.expect = 1 THEN f.found IS NOT NULL ELSE f.found IS DISTINCT FROM f.expected END;
    IF found THEN
        RETURN;
    END IF;
    UPDATE queue_records AS r
    SET version = a.version, value = a.value, written_at = v_then, expires_at = later(v_then, a.ttl)
    FROM (
        SELECT
            unnest(p_queues) AS queue, unnest(p_keys) AS key, unnest(p_versions) AS version, unnest(p_values) AS value,
            unnest(p_ttls) AS ttl
    ) AS a
    WHERE r.queue = ANY (ARRAY[coalesce(a.queue, p_queues[1])]) AND r.key = ANY (ARRAY[a.key]) AND a.version IS NOT NULL
        -- Not what was added just now.
        AND (r.version <> a.version OR r.written_at <> v_now OR r.expires_at IS DISTINCT FROM later(v_now, a.ttl));
    DELETE FROM queue_records AS r
    USING (SELECT unnest(p_queues) AS queue, unnest(p_keys) AS key, unnest(p_versions) AS version) AS a
    WHERE r.queue = ANY (ARRAY[coalesce(a.queue, p_queues[1])]) AND r.key = ANY (ARRAY[a.key]) AND a.version IS NULL;
END
$$;
