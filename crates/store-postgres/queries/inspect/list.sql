-- A page of jobs, the newest accepted first.
--
-- p_before      only jobs accepted before this number
-- p_state, ...  NULL: any
-- p_scan        how many jobs are looked at, at most; p_limit how many are answered; p_bytes of payload, output and
--               progress after which no more are answered
-- result        the jobs, then one row with o_id NULL: o_seq is where the next page begins (NULL at the end)
CREATE FUNCTION {function}(
    p_before int8, p_queue text, p_kind text, p_state int8, p_tag text, p_scan int8, p_limit int8, p_bytes int8
) RETURNS TABLE (
    o_seq int8, o_id uuid, o_queue text, o_kind text, o_state int8, o_priority int2, o_due_at int8, o_enqueued_at int8,
    o_fence int8, o_attempt int8, o_stalls int8, o_ambiguous int8, o_backoff int8, o_cancel bool, o_claimed_at int8,
    o_worker text, o_finished_at int8, o_reason text, o_expires_at int8, o_spec text,
    o_tags text, o_progress bytea, o_output bytea, o_payload bytea,
    o_begun bool, o_form int8, o_unique_key uuid, o_unique_lifetime text, o_key text
)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
DECLARE
    v_looked int8[];
    v_part int8;
    v_hits int8[];
    v_shown int8[];
    v_next int8;
BEGIN
    -- One more than may be looked at tells whether there are more.
    IF p_state IS NULL OR p_state = 4 THEN
        SELECT array_agg(l.seq) INTO v_looked
        FROM (SELECT seq FROM jobs WHERE seq < p_before ORDER BY seq DESC LIMIT p_scan + 1) AS l;
    ELSIF p_state >= 5 THEN
        SELECT array_agg(l.seq) INTO v_looked
        FROM (
            SELECT seq FROM ended WHERE state >= 5 AND state = p_state AND seq < p_before ORDER BY seq DESC LIMIT p_scan + 1
        ) AS l;
    ELSIF p_state = 3 THEN
        SELECT array_agg(l.seq) INTO v_looked
        FROM (SELECT seq FROM running WHERE seq < p_before ORDER BY seq DESC LIMIT p_scan + 1) AS l;
    ELSE
        SELECT array_agg(l.seq) INTO v_looked
        FROM (SELECT seq FROM waiting WHERE seq < p_before ORDER BY seq DESC LIMIT p_scan + 1) AS l;
    END IF;
    IF cardinality(v_looked) > p_scan THEN
        v_looked := v_looked[1:p_scan];
        v_next := v_looked[p_scan];
    END IF;
    -- Mostly the first that are looked at are a page; all of them are joined only where few match.
    FOREACH v_part IN ARRAY ARRAY[p_limit + 1, p_scan] LOOP
        SELECT array_agg(h.seq) INTO v_hits
        FROM (
            SELECT r.seq
            FROM unnest(v_looked[1:v_part]) AS l (seq)
            JOIN records AS r ON r.seq = ANY (ARRAY[l.seq])
            WHERE (p_queue IS NULL OR r.queue = p_queue)
                AND (p_kind IS NULL OR r.kind = p_kind)
                AND (p_tag IS NULL OR p_tag = ANY (string_to_array(r.tags, ',')))
                AND (p_state IS NULL OR r.state = p_state)
            ORDER BY l.seq DESC
            LIMIT p_limit + 1
        ) AS h;
        EXIT WHEN cardinality(v_hits) > p_limit OR v_part >= cardinality(v_looked);
    END LOOP;
    IF cardinality(v_hits) > p_limit THEN
        v_hits := v_hits[1:p_limit];
        v_next := v_hits[p_limit];
    END IF;
    SELECT array_agg(s.seq ORDER BY s.seq DESC) INTO v_shown
    FROM (
        SELECT
            r.seq,
            sum(
                octet_length(r.payload) + coalesce(octet_length(r.output), 0) + coalesce(octet_length(r.progress), 0)
            ) OVER (ORDER BY h.seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
        FROM unnest(v_hits) AS h (seq)
        JOIN records AS r ON r.seq = ANY (ARRAY[h.seq])
    ) AS s
    WHERE s.bytes_before IS NULL OR s.bytes_before < p_bytes;
    IF cardinality(v_shown) < cardinality(v_hits) THEN
        v_next := v_shown[cardinality(v_shown)];
    END IF;
    RETURN QUERY
    SELECT r.*, j.unique_key, j.unique_lifetime::text, j.key::text
    FROM unnest(v_shown) AS s (seq)
    JOIN records AS r ON r.seq = ANY (ARRAY[s.seq])
    -- The view stays as it is: functions of earlier programs answer all of its columns.
    JOIN jobs AS j ON j.seq = ANY (ARRAY[r.seq]);
    o_seq := v_next;
    RETURN NEXT;
END
$$;
