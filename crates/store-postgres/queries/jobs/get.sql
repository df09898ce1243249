-- Jobs by their ids, with the attempts that are stored of them as a JSON array.
CREATE FUNCTION {function}(p_ids uuid[])
RETURNS TABLE (
    o_seq int8, o_id uuid, o_queue text, o_kind text, o_state int8, o_priority int2, o_due_at int8, o_enqueued_at int8,
    o_fence int8, o_attempt int8, o_stalls int8, o_ambiguous int8, o_backoff int8, o_cancel bool, o_claimed_at int8,
    o_worker text, o_finished_at int8, o_reason text, o_expires_at int8, o_spec text,
    o_tags text, o_progress bytea, o_output bytea, o_payload bytea,
    o_begun bool, o_form int8, o_unique_key uuid, o_unique_lifetime text, o_key text, o_attempts text
)
LANGUAGE plpgsql STABLE {steady}
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT
        r.*, j.unique_key, j.unique_lifetime::text, j.key::text,
        (
            SELECT
                json_agg(
                    json_build_array(t.fence, t.number, t.worker, t.started_at, t.ended_at, t.ending, t.error)
                    ORDER BY t.fence, t.late
                )::text
            FROM attempts AS t
            WHERE t.seq = ANY (ARRAY[r.seq])
        )
    FROM unnest(p_ids) AS a (id)
    JOIN records AS r ON r.id = ANY (ARRAY[a.id])
    -- The view stays as it is: functions of earlier programs answer all of its columns.
    JOIN jobs AS j ON j.seq = ANY (ARRAY[r.seq]);
END
$$;
